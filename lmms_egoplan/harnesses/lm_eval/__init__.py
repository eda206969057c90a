"""What lm-eval needs of this package, and the only modules that import it: tasks' base class, images, a model class."""
