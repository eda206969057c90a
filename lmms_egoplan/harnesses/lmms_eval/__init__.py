"""What lmms-eval needs of this package, and the only modules that import it: the plugin, model classes, filters."""
