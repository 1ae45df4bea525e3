"""Find plotly.js in the installed ``plotly`` distribution without importing plotly.

Under our Content-Security-Policy, plotly.js cannot insert its style sheet; it leaves that to a ``<link
id="plotly.js-style-global" class="no-inline-styles">``. The rules are extracted from plotly.min.js itself, so
that the sheet always matches the installed version.
"""

from __future__ import annotations

import ast
import gzip
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tocsin_server.core.errors import StartError

GZIP_LEVEL = 6
_RULES = re.compile(r'\{"X,X div":.*?\};')
_TEXT = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_RULE = re.compile(rf"({_TEXT}|[A-Za-z_]\w*):({_TEXT})")


@dataclass(frozen=True)
class PlotlyJS:
    """One version of plotly.js. Bodies are read and compressed on first use and cached (about 6 MB)."""

    version: str
    path: Path

    @cached_property
    def script(self) -> bytes:
        """Return plotly.min.js, about 4.8 MB."""
        return self.path.read_bytes()

    @cached_property
    def script_gzipped(self) -> bytes:
        """Return plotly.min.js compressed with gzip, about 1.5 MB."""
        return gzip.compress(self.script, GZIP_LEVEL, mtime=0)

    @cached_property
    def style(self) -> bytes:
        """Return the style sheet that plotly.js would have inserted."""
        return style_sheet(self.script.decode("utf-8")).encode("utf-8")


@cache
def installed() -> PlotlyJS:
    """Return the installed version, read and compressed once per process.

    Raises:
        StartError: The plotly distribution is missing or has no plotly.js.
    """
    try:
        found = distribution("plotly")
    except PackageNotFoundError:
        raise StartError("Plotly is not installed. Install it with `pip install plotly`.") from None
    path = Path(str(found.locate_file("plotly/package_data/plotly.min.js")))
    if not path.is_file():
        raise StartError(f"There is no file {path}. Install plotly again.")
    return PlotlyJS(version=found.version, path=path)


def style_sheet(script: str) -> str:
    """Return plotly.js's global style rules as CSS, from the text of plotly.min.js.

    plotly.js inserts each rule before the existing ones, so the order is reversed.

    Raises:
        StartError: The rules cannot be found, because plotly has another major version.
    """
    table = _RULES.search(script)
    rules = _RULE.findall(table.group()) if table else []
    if not rules:
        raise StartError(
            "plotly.min.js has no style rules as in version 4. Install another version of plotly."
        )
    return "\n".join(f"{_selector(name)}{{{_text(body)}}}" for name, body in reversed(rules)) + "\n"


def _selector(name: str) -> str:
    """Return a CSS selector: X stands for a plot, Y for the notifier, as in plotly.js itself."""
    return _text(name).replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")


def _text(literal: str) -> str:
    """Return the text of a JavaScript string literal or a bare key."""
    return str(ast.literal_eval(literal)) if literal[0] in "\"'" else literal
