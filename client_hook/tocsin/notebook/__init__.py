"""Runs in Jupyter, VS Code and Colab: a live card under the cell, and cells that fail."""

from .card import Card
from .cells import before_cells, watch_cells
from .kernel import interactive_shell, notebook_name, shell

__all__ = ["Card", "before_cells", "interactive_shell", "notebook_name", "shell", "watch_cells"]
