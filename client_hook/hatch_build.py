"""Compile ``tocsin/spool/_pack.c`` into the wheel if TOCSIN_COMPILE is set, as the release workflow does.

Without it the wheel is pure Python: nothing is compiled when it is installed from source.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("tocsin") / "spool" / "_pack.c"


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Add the compiled module, and mark the wheel as one for CPython 3.11 and later on this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for a wheel that is not editable."""
        if self.target_name != "wheel" or version == "editable" or not os.environ.get("TOCSIN_COMPILE"):
            return
        from setuptools import Distribution, Extension  # type: ignore[import-untyped]

        module = Extension("tocsin.spool._pack", [str(SOURCE)], py_limited_api=True)
        command = Distribution({"ext_modules": [module]}).get_command_obj("build_ext")
        command.build_lib = str(Path(self.directory) / "compiled")
        command.build_temp = str(Path(self.directory) / "objects")
        command.ensure_finalized()
        command.run()
        (built,) = command.get_outputs()
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["force_include"][built] = f"tocsin/spool/{Path(built).name}"
