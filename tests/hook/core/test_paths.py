"""Paths as text of one line."""

from __future__ import annotations

import os

import pytest

from tocsin.core.paths import LONGEST, escaped, shortened, unescaped


@pytest.mark.parametrize(
    "path",
    [
        "/plain/ckpt.pt",
        "/with space/ä.pt",
        "/back\\slash.pt",
        "/line\nbreak\\\t.pt",
        "/\x1b[31mred\x00",
        "/bidi\u202etp.ckpt",
        "/\U000e0001tag",
        os.fsdecode(b"/not\xffutf8"),
    ],
)
def test_a_path_is_one_line_and_comes_back(path: str) -> None:
    """Control characters are escaped; the text gives the path again. Plain paths are unchanged."""
    text = escaped(path)
    assert text.isprintable()
    text.encode()
    assert (unescaped(text) if text != path else text) == path


def test_long_paths_keep_both_ends() -> None:
    """A path of 4 kB keeps its beginning and its file name."""
    text = shortened("/" + "a" * 4000 + "/ckpt.pt")
    assert len(text) <= LONGEST
    assert text.startswith("/aaa")
    assert text.endswith("/ckpt.pt")
