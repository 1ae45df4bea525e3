"""Notes become HTML without foreign markup."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.report.prose import prose

OURS = (
    "p|h[1-6]|ul|ol|li|em|strong|code|pre tabindex=0|pre|blockquote|hr|br|table|tr|th|td|div|"
    'div class="scroll" tabindex="0"'
)


@given(st.text(st.sampled_from("<>\"'&`*_[]()#>-1. \nhttps:/jav\x00\u202e"), max_size=200))
def test_only_our_own_tags_come_out(source: str) -> None:
    """For any text, only our tags have angle brackets, and links lead to web addresses only."""
    left = re.sub(rf"</?(?:{OURS}|a)>", "", prose(source))
    left = re.sub(r'<a href="(?:https?|mailto):[^"<>]*" rel="noopener noreferrer nofollow">', "", left)
    assert not set(left) & {"<", ">"}


def test_the_usual_marks_mean_what_they_mean() -> None:
    """Headings, emphasis, code, lists, quotes and links."""
    html = prose("# Why\n**Lower** `lr`, see [log](https://x.org/a)\n\n- one\n- two\n\n> so\n\n```\n<b>\n```")
    assert "<h3>Why</h3>" in html
    assert "<strong>Lower</strong> <code>lr</code>" in html
    assert '<a href="https://x.org/a" rel="noopener noreferrer nofollow">log</a>' in html
    assert "<ul><li>one</li><li>two</li></ul><blockquote><p>so</p></blockquote>" in html
    assert "<code>&lt;b&gt;</code>" in html


def test_an_address_that_runs_is_no_link() -> None:
    """javascript: and data: are shown as text."""
    assert "<a" not in prose("[x](javascript:alert(1)) [y](data:text/html,1)")
