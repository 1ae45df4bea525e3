"""The notebook that this process belongs to, if any. Imports nothing that the notebook has not imported."""

from __future__ import annotations

import sys
from typing import Any


def shell() -> Any:
    """Return IPython's shell if its output goes to a notebook, else None (also in a terminal)."""
    module = sys.modules.get("IPython")
    try:
        found = module.get_ipython() if module is not None else None
    except Exception:
        return None
    return found if getattr(found, "kernel", None) is not None else None


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
