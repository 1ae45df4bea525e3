"""The notebook that this process belongs to, if any. Imports nothing that the notebook has not imported."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath
from typing import Any


def interactive_shell() -> Any:
    """Return IPython's shell, in a notebook or in a terminal, else None."""
    module = sys.modules.get("IPython")
    try:
        return module.get_ipython() if module is not None else None
    except Exception:
        return None


def shell() -> Any:
    """Return IPython's shell if its output goes to a notebook, else None (also in a terminal)."""
    found = interactive_shell()
    return found if getattr(found, "kernel", None) is not None else None


def notebook_name() -> str:
    """Return the name of the notebook's file without its suffix; empty outside a notebook or if unknown.

    VS Code puts the path into a variable of the notebook, Jupyter into the environment of its kernel.
    """
    found = shell()
    if found is None:
        return ""
    named = getattr(found, "user_ns", {}).get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    return PurePath(named).stem if isinstance(named, str) else ""


def display(html: str, display_id: str, *, update: bool) -> None:
    """Show HTML under the cell, or replace what is shown there. Any thread may call it.

    Args:
        html: The fragment.
        display_id: Names the output, so that it can be replaced.
        update: Whether it replaces an output.
    """
    publish = sys.modules["IPython"].display.publish_display_data

    publish(
        {"text/html": html, "text/plain": "tocsin run"},
        transient={"display_id": display_id},
        update=update,
    )
