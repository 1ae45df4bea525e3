"""Runs in Jupyter, VS Code and Colab: a live card under the cell, and cells that fail."""

from .card import Card
from .cells import watch_cells
from .kernel import shell

__all__ = ["Card", "shell", "watch_cells"]
