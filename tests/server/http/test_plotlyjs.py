"""plotly.js and its style sheet."""

from __future__ import annotations

import gzip

import pytest

from tocsin_server.core.errors import StartError
from tocsin_server.http.plotlyjs import compiled_early, installed, style_sheet


def test_its_version_is_that_of_the_file() -> None:
    """The version is in its address, which browsers keep."""
    plotly = installed()
    assert f"plotly.js (basic - minified) v{plotly.version}\n".encode() in plotly.script[:200]


def test_the_gzipped_one_is_the_same() -> None:
    """The compressed file is the uncompressed one, byte for byte."""
    plotly = installed()
    assert gzip.decompress(plotly.script_gzipped) == plotly.script


def test_later_rules_come_first_as_plotly_inserts_them() -> None:
    """X is a plot, Y the notifier, and each rule is inserted before those already there."""
    script = """var t={"X,X div":'margin:0;',"X a:hover":"color:red;",Y:"top:50px;"};for(k in t)"""
    assert style_sheet(script).splitlines() == [
        ".plotly-notifier{top:50px;}",
        ".js-plotly-plot .plotly a:hover{color:red;}",
        ".js-plotly-plot .plotly,.js-plotly-plot .plotly div{margin:0;}",
    ]


def test_an_unsupported_plotly_is_rejected() -> None:
    """If the rules are not found, the start fails, not the page."""
    with pytest.raises(StartError, match="style rules"):
        style_sheet("no rules here")


def test_its_function_is_in_parentheses() -> None:
    """Nothing else differs from the installed file."""
    plotly = installed()
    assert b" : this, (() => {\n" in plotly.script
    assert plotly.script.endswith(b"\n})));")
    assert len(plotly.script) == len(plotly.path.read_bytes()) + 2
    with pytest.raises(StartError, match="begin and end"):
        compiled_early(plotly.script)
