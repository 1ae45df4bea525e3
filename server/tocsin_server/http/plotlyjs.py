"""plotly.js: the basic bundle of npm in ``plotly/`` (see README.md there), and its style sheet.

Under our Content-Security-Policy, plotly.js cannot insert its style sheet; it leaves that to a ``<link
id="plotly.js-style-global" class="no-inline-styles">``. The rules are extracted from the bundle itself, so
that the sheet always matches it.
"""

from __future__ import annotations

import ast
import gzip
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tocsin_server.core.errors import StartError

VERSION = "4.1.1"
GZIP_LEVEL = 9
BUNDLE = re.compile(rb"(.*? : this, )(\(\) => \{\n.*\n\})(\)\);\s*)", re.DOTALL)
"""What is before, in and after the function that contains all of plotly.js."""
_RULES = re.compile(r'\{"X,X div":.*?\};')
_TEXT = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_RULE = re.compile(rf"({_TEXT}|[A-Za-z_]\w*):({_TEXT})")


@dataclass(frozen=True)
class PlotlyJS:
    """One version of plotly.js. Bodies are read and compressed on first use and cached (about 1.6 MB)."""

    version: str
    path: Path

    @cached_property
    def script(self) -> bytes:
        """Return the bundle, about 1.2 MB, so that a browser compiles it while it loads."""
        return compiled_early(self.path.read_bytes())

    @cached_property
    def script_gzipped(self) -> bytes:
        """Return the bundle compressed with gzip, about 0.4 MB."""
        return gzip.compress(self.script, GZIP_LEVEL, mtime=0)

    @cached_property
    def style(self) -> bytes:
        """Return the style sheet that plotly.js would have inserted."""
        return style_sheet(self.script.decode("utf-8")).encode("utf-8")


def compiled_early(script: bytes) -> bytes:
    """Return the bundle with its one large function in parentheses.

    Chromium compiles such a function in another thread while the script loads; others only when they are
    called, in the thread of the page.

    Raises:
        StartError: The function is not found, because the bundle has another major version.
    """
    found = BUNDLE.fullmatch(script)
    if found is None:
        raise StartError("plotly.js does not begin and end as version 4 does. Install tocsin-server again.")
    return b"%s(%s)%s" % found.groups()


@cache
def installed() -> PlotlyJS:
    """Return the version in ``plotly/``, read and compressed once per process.

    Raises:
        StartError: The file is missing.
    """
    path = Path(__file__).with_name("plotly") / "plotly-basic.min.js"
    if not path.is_file():
        raise StartError(f"There is no file {path}. Install tocsin-server again.")
    return PlotlyJS(version=VERSION, path=path)


def style_sheet(script: str) -> str:
    """Return plotly.js's global style rules as CSS, from the text of the bundle.

    plotly.js inserts each rule before the existing ones, so the order is reversed.

    Raises:
        StartError: The rules cannot be found, because the bundle has another major version.
    """
    table = _RULES.search(script)
    rules = _RULE.findall(table.group()) if table else []
    if not rules:
        raise StartError("plotly.js has no style rules as in version 4. Install tocsin-server again.")
    return "\n".join(f"{_selector(name)}{{{_text(body)}}}" for name, body in reversed(rules)) + "\n"


def _selector(name: str) -> str:
    """Return a CSS selector: X stands for a plot, Y for the notifier, as in plotly.js itself."""
    return _text(name).replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")


def _text(literal: str) -> str:
    """Return the text of a JavaScript string literal or a bare key."""
    return str(ast.literal_eval(literal)) if literal[0] in "\"'" else literal
