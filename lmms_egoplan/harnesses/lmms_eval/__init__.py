"""The adapter to lmms-eval, and the only modules that import it: the plugin, model classes and
filters.
"""
