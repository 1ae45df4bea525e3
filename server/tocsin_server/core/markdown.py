"""Parse Markdown (notes) into a tree of plain nodes, which the pages and the reports draw. Pure.

One parser serves both: CommonMark with tables. HTML in it stays text, images become links, and links lead to
http, https and mailto only. The work is bounded: text that needs too much is shown as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

LONGEST = 100_000
"""Characters; what is beyond is cut."""
MOST_WORK = 40_000
"""Steps of the parser, about 25 us each. A hundred pages of usual text take 3,000."""
DEEPEST = 40
"""Levels of blocks within one another; a quote is one, a list with its items two."""
_SAFE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]{1,2000}", re.IGNORECASE)
_PUNCTUATION = ".,;:!?"
_CONTAINERS = {
    "paragraph": "paragraph", "blockquote": "quote", "bullet_list": "list", "ordered_list": "ordered_list",
    "list_item": "item", "table": "table", "tr": "row", "th": "head_cell", "td": "cell", "strong": "strong",
    "em": "em", "thead": "", "tbody": "",
}  # fmt: skip
"""Kinds of nodes by the names of markdown-it; of those without one only the content is kept."""


@dataclass(slots=True)
class Node:
    """A piece of a text.

    ``kind``: heading (with ``level``), paragraph, quote, list, ordered_list, item, table, row, head_cell,
    cell, code_block, rule; within a line text, code, strong, em, link (with ``href``), break.
    """

    kind: str
    text: str = ""
    level: int = 0
    href: str = ""
    children: list[Node] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the node as JSON: what is empty is left out."""
        out: dict[str, Any] = {"kind": self.kind}
        for name, value in (("text", self.text), ("level", self.level), ("href", self.href)):
            if value:
                out[name] = value
        if self.children:
            out["children"] = [child.plain() for child in self.children]
        return out


def parse(source: str) -> list[Node]:
    """Return the blocks of ``source``.

    A text that takes more than :data:`MOST_WORK` is one block of code: what was written, letter by letter.
    """
    text = source[:LONGEST]
    work = _Work()
    state = StateCore(text, _PARSER, {"work": work})
    state.tokens = _Tokens(work)
    try:
        _PARSER.core.process(state)
        return _nested(_nodes(state.tokens))
    except _TooMuchError:
        return [Node("code_block", text)]


class _TooMuchError(Exception):
    """The text takes more work than it may."""


@dataclass(slots=True)
class _Work:
    done: int = 0

    def add(self) -> None:
        self.done += 1
        if self.done > MOST_WORK:
            raise _TooMuchError


class _Tokens(list[Token]):
    """The blocks of a text. Tables make them without a step of the parser, so they count as well."""

    def __init__(self, work: _Work) -> None:
        super().__init__()
        self._work = work

    def append(self, token: Token) -> None:
        self._work.add()
        super().append(token)


def _count_block(state: Any, _start: int, _end: int, _silent: bool) -> bool:
    """A rule that matches nothing and counts how often the parser looks for a block."""
    state.env["work"].add()
    if state.level > DEEPEST:
        raise _TooMuchError
    return False


def _count_inline(state: Any, _silent: bool) -> bool:
    state.env["work"].add()
    return False


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * DEEPEST}).enable("table")
    parser.disable(["html_block", "html_inline"])
    parser.validateLink = lambda url: _SAFE.match(url) is not None  # type: ignore[method-assign]
    first = parser.block.ruler.get_all_rules()[0]
    terminators = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before(first, "work", _count_block, {"alt": terminators})
    parser.inline.ruler.before(parser.inline.ruler.get_all_rules()[0], "work", _count_inline)
    return parser


_PARSER = _parser()


@dataclass(slots=True)
class _Open:
    """The beginning of a node that holds others, or where ``node`` is None, its end."""

    node: Node | None


def _nodes(tokens: Sequence[Token]) -> Iterator[Node | _Open]:
    """The nodes of a flat list of tokens. Within a link there is no other."""
    linked = False
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type == "inline":
            yield from _nodes(token.children or ())
        elif token.hidden:
            pass  # the paragraph of a tight list
        elif token.nesting < 0:
            if _CONTAINERS.get(name, name):
                yield _Open(None)
            linked = linked and name != "link"
        elif token.nesting > 0:
            linked = linked or name == "link"
            if kind := _CONTAINERS.get(name, name):
                yield _Open(_container(kind, token))
        else:
            yield from _leaf(token, linked)


def _container(kind: str, token: Token) -> Node:
    if kind == "heading":
        return Node(kind, level=int(token.tag[1:]))
    if kind == "link":
        return Node(kind, href=str(token.attrs.get("href", "")))
    return Node(kind)


def _leaf(token: Token, linked: bool) -> Iterator[Node]:
    if token.type in ("fence", "code_block"):
        yield Node("code_block", token.content.removesuffix("\n"))
    elif token.type == "code_inline":
        yield Node("code", token.content)
    elif token.type == "hr":
        yield Node("rule")
    elif token.type == "softbreak":
        yield Node("text", "\n")
    elif token.type == "hardbreak":
        yield Node("break")
    elif token.type == "image":
        label = token.content or "image"
        yield Node("text", label) if linked else _link(str(token.attrs.get("src", "")), label)
    else:
        yield from (Node("text", token.content),) if linked else _with_addresses(token.content)


def _with_addresses(text: str) -> Iterator[Node]:
    """Text, in which addresses of the web are links without being marked as such."""
    last = 0
    for found in _ADDRESS.finditer(text):
        if found.start() > last:
            yield Node("text", text[last : found.start()])
        address = found[0].rstrip(_PUNCTUATION)
        yield _link(address, address)
        last = found.start() + len(address)
    if last < len(text):
        yield Node("text", text[last:])


def _link(href: str, label: str) -> Node:
    return Node("link", href=href, children=[Node("text", label)])


def _nested(flat: Iterator[Node | _Open]) -> list[Node]:
    """The tree of beginnings and ends."""
    root = Node("root")
    opened = [root]
    for one in flat:
        if isinstance(one, Node):
            opened[-1].children.append(one)
        elif one.node is None:
            opened.pop()
        else:
            if len(opened) > 3 * DEEPEST:  # of emphasis, markdown-it bounds no levels
                raise _TooMuchError
            opened[-1].children.append(one.node)
            opened.append(one.node)
    return root.children
