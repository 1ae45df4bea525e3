"""tocsin's server: stores and checks every step of every run, and sends alerts."""

from importlib.metadata import version

__version__ = version("tocsin-server")
