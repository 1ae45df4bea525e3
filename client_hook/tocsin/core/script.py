"""The script of this process: its project, and which files belong to Python and not to the script."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT_LEVELS = 24
"""Maximum number of folders above the script that are searched for its repository."""


def project_of(environ: Mapping[str, str]) -> str:
    """Return ``TOCSIN_PROJECT``, else the name of the script's repository or folder."""
    given = environ.get("TOCSIN_PROJECT", "").strip()
    if given:
        return given
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    here = Path.cwd()
    folder = Path(script).resolve().parent if script and not is_installed(str(script)) else here
    for parent in (folder, *folder.parents)[:ROOT_LEVELS]:
        if (parent / ".git").exists():
            return parent.name or "unnamed"
    return folder.name or "unnamed"


def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python, its packages or its scripts."""
    return file.startswith(_INSTALLED) or f"{os.sep}site-packages{os.sep}" in file


_INSTALLED = tuple(
    path + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    if (path := sysconfig.get_path(name))
)
