"""The version of this package, stated once."""

__version__ = "0.2.0.dev0"
