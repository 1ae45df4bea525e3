"""Text of users becomes a tree without any of its markup, with bounded work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core import markdown
from tocsin_server.core.markdown import LONGEST, Node, parse


def text_of(nodes: list[Node]) -> str:
    return "".join(node.text + text_of(node.children) for node in nodes)


def links_of(nodes: list[Node]) -> list[tuple[str, str]]:
    found = []
    for node in nodes:
        found += [(node.href, text_of([node]))] if node.kind == "link" else links_of(node.children)
    return found


def kinds(source: str) -> list[str]:
    return [node.kind for node in parse(source)]


def test_blocks_are_distinguished() -> None:
    """Headings, lists, quotes, code, tables and rules."""
    source = "# T\n\ntext\n\n- a\n- b\n\n1. x\n\n> q\n\n```py\ncode *no*\n```\n\n| a |\n|---|\n| 1 |\n\n---"
    assert kinds(source) == [
        "heading", "paragraph", "list", "ordered_list", "quote", "code_block", "table", "rule",
    ]  # fmt: skip


def test_a_line_has_emphasis_code_and_breaks() -> None:
    """The items of a tight list hold their text without a paragraph."""
    (listed,) = parse("- a **b** *c* `d*e*`  \n  f")
    found = [node.kind for node in listed.children[0].children]
    assert found == ["text", "strong", "text", "em", "text", "code", "break", "text"]


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("[a](https://x.org/b)", [("https://x.org/b", "a")]),
        ("<mailto:a@x.org>", [("mailto:a@x.org", "mailto:a@x.org")]),
        ("see https://x.org/a_b_c.", [("https://x.org/a_b_c", "https://x.org/a_b_c")]),
        ("![plot](https://x.org/p.png)", [("https://x.org/p.png", "plot")]),
        ("[![badge](https://i.org/b)](https://x.org)", [("https://x.org", "badge")]),
        ("[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](data:text/html,1) [d](//x.org)", []),
        ("![a](javascript:x) <javascript:x> [e](/runs/x) [f](vbscript:x)", []),
    ],
)
def test_links_lead_to_the_web_only(source: str, links: list[tuple[str, str]]) -> None:
    """Images are links and never loaded; an executable address stays text."""
    assert links_of(parse(source)) == links


def test_html_stays_text() -> None:
    """HTML stays text within a line and as a block."""
    hostile = '<img src=x onerror="alert(1)"> <script>x</script>'
    assert text_of(parse(hostile)) == hostile
    assert text_of(parse("<div>\n*a*\n</div>")) == "<div>\na\n</div>"


@given(st.text(st.sampled_from("<>\"'&`*_[]()#>-1.|!\\ \nhttps:/jav\x00\u202e\ud800"), max_size=300))
def test_any_text_is_a_tree(source: str) -> None:
    """For any text; every link is safe to follow."""
    for href, _ in links_of(parse(source)):
        assert href.lower().startswith(("http:", "https:", "mailto:"))


HOSTILE: dict[str, str] = {
    "heading": "# a" + " " * LONGEST + "b",
    "dashes": "a|b\n" + "-" * LONGEST,
    "brackets": "[" * LONGEST,
    "images": "![" * LONGEST,
    "stars": "*a _b " * LONGEST,
    "ticks": "".join("`" * at + " " for at in range(450)),
    "items": "- a\n" * LONGEST,
    "lazy lines": "> " * 15 + "a\n" + "b\n" * LONGEST,
    "short rows": "|a" * 1000 + "\n" + "|-" * 1000 + "\n" + "x\n" * LONGEST,
    "destinations": "[a](<b" * LONGEST,
    "references": "[a]: b (\n" * LONGEST,
    "quotes": ">" * LONGEST,
    "blanks": "\t \n" * LONGEST,
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_take_bounded_work(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser stops after a number of steps, and the text is shown unchanged."""
    counted = markdown._Work()
    monkeypatch.setattr(markdown, "_Work", lambda: counted)
    nodes = parse(source)
    assert counted.done <= markdown.MOST_WORK + 1
    assert len(text_of(nodes)) <= LONGEST


def test_deeply_nested_text_is_shown_unchanged() -> None:
    """No text is lost."""
    source = "> " * 100 + "deep"
    assert [node.plain() for node in parse(source)] == [{"kind": "code_block", "text": source}]


def test_emphasis_nested_without_end_is_code() -> None:
    """Reports are written recursively: tens of thousands of levels would raise an error."""
    text = "*" * 30_000 + "a" + "*" * 30_000
    assert [node.kind for node in parse(text)] == ["code_block"]
