"""A ``.pth`` file, which Python reads at startup, that loads the hook if TOCSIN_AUTO=1."""

from __future__ import annotations

import sysconfig
from pathlib import Path

FILE = "tocsin_auto.pth"
LINE = (
    'import os; exec("try:\\n import tocsin.auto.start\\nexcept ImportError:\\n pass") '
    'if os.environ.get("TOCSIN_AUTO", "").strip().lower() not in ("", "0", "false", "no") else None\n'
)
"""Python executes a line that begins with ``import``. After tocsin is uninstalled, it does nothing."""


def installed_in() -> Path:
    """Return the folder of this environment's packages."""
    return Path(sysconfig.get_path("purelib"))


def install(folder: Path) -> Path:
    """Create the file in ``folder`` and return its path.

    Raises:
        OSError: The folder is not writable.
    """
    path = folder / FILE
    try:
        path.write_text(LINE, encoding="utf-8")
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}. Run `tocsin enable` as the owner of this "
            "environment, or put `tocsin run` in front of the training command."
        ) from None
    return path


def remove(folder: Path) -> Path | None:
    """Delete the file and return its path, or None if there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    path.unlink()
    return path
