"""The server's OpenAPI description. As a program: print its schemas, for the types of ``web/``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def description() -> Mapping[str, Any]:
    """Return the OpenAPI description of a server with default settings."""
    from tocsin_server.app.application import create_app
    from tocsin_server.core.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        return dict(create_app(Settings(data_dir=Path(folder))).openapi())


if __name__ == "__main__":
    json.dump({**description(), "paths": {}}, sys.stdout)
