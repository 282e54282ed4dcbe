"""The release of nni whose trial calls these are."""

__version__ = '3.0+perennial'
