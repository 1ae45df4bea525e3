"""tocsin's server: stores every step of every run, judges it, and rings."""

from importlib.metadata import version

__version__ = version("tocsin-server")
