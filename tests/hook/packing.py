"""Run the tests of a file with the compiled module, built here, and in pure Python."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.import_graph import ROOT
from tocsin.spool import log

SOURCE = ROOT / "client_hook" / "tocsin" / "spool" / "_pack.c"


@cache
def compiled() -> Any:
    """Return the compiled module, or None without a compiler or before the stable ABI that it needs."""
    compiler = shutil.which("cc")
    if compiler is None or sys.version_info < (3, 11):
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "_pack.so"
        include = f"-I{sysconfig.get_paths()['include']}"
        flags = ("-O2", "-Wall", "-Werror", "-shared", "-fPIC", include)
        subprocess.run([compiler, *flags, str(SOURCE), "-o", str(built)], check=True)
        spec = importlib.util.spec_from_file_location("tocsin.spool._pack", built)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True, params=["pure", "compiled"])
def packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose what appends records."""
    module = compiled() if request.param == "compiled" else None
    if request.param == "compiled" and module is None:
        pytest.skip("no C compiler, or no stable ABI")
    monkeypatch.setattr(log, "compiled", module)
