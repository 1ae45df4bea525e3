"""The script of this process: its project, and which files belong to Python and not to the script."""

from __future__ import annotations

import functools
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
    if file.startswith(_INSTALLED) or any(f"{os.sep}{name}{os.sep}" in file for name in _PACKAGES):
        return True
    folders = [
        one for one in sys.path[1:] if one and file.startswith(one + os.sep)
    ]  # the first is the script's
    return any(_holds_packages(one) for one in folders)


@functools.cache
def _holds_packages(folder: str) -> bool:
    """Return whether pip has installed packages into a folder of ``PYTHONPATH``, as by ``--target``."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


_PACKAGES = ("site-packages", "dist-packages")


_INSTALLED = tuple(
    path + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    if (path := sysconfig.get_path(name))
)
