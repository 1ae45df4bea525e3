"""Parse Markdown notes into a tree of plain nodes for the pages and the reports. Pure functions.

The dialect is CommonMark with tables. HTML stays text, images become links, and links are limited to
http, https and mailto. The work is bounded: text that needs too much is shown as plain text.
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
"""Maximum characters; the rest is cut off."""
MOST_WORK = 40_000
"""Maximum parser steps, about 25 us each. A hundred pages of ordinary text take 3,000."""
DEEPEST = 40
"""Maximum levels of nested blocks; a quote counts as one, a list with its items as two."""
_SAFE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]{1,2000}", re.IGNORECASE)
_PUNCTUATION = ".,;:!?"
_CONTAINERS = {
    "paragraph": "paragraph", "blockquote": "quote", "bullet_list": "list", "ordered_list": "ordered_list",
    "list_item": "item", "table": "table", "tr": "row", "th": "head_cell", "td": "cell", "strong": "strong",
    "em": "em", "thead": "", "tbody": "",
}  # fmt: skip
"""Node kinds by markdown-it's names. Nodes with an empty kind are replaced by their children."""


@dataclass(slots=True)
class Node:
    """One node of the parsed text.

    ``kind`` is one of heading (with ``level``), paragraph, quote, list, ordered_list, item, table, row,
    head_cell, cell, code_block, rule; within a line text, code, strong, em, link (with ``href``), break.
    """

    kind: str
    text: str = ""
    level: int = 0
    href: str = ""
    children: list[Node] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the node as JSON without its empty fields."""
        out: dict[str, Any] = {"kind": self.kind}
        for name, value in (("text", self.text), ("level", self.level), ("href", self.href)):
            if value:
                out[name] = value
        if self.children:
            out["children"] = [child.plain() for child in self.children]
        return out


def parse(source: str) -> list[Node]:
    """Return the blocks of ``source``.

    Text that takes more than :data:`MOST_WORK` is returned unchanged as one code block.
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
    """The text takes more than :data:`MOST_WORK` parser steps."""


@dataclass(slots=True)
class _Work:
    done: int = 0

    def add(self) -> None:
        self.done += 1
        if self.done > MOST_WORK:
            raise _TooMuchError


class _Tokens(list[Token]):
    """The tokens of a text. Each counts as work, because tables create tokens without a parser step."""

    def __init__(self, work: _Work) -> None:
        super().__init__()
        self._work = work

    def append(self, token: Token) -> None:
        self._work.add()
        super().append(token)


def _count_block(state: Any, _start: int, _end: int, _silent: bool) -> bool:
    """Count how often the parser looks for a block; a parser rule that never matches."""
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
    """The start of a node with children, or its end if ``node`` is None."""

    node: Node | None


def _nodes(tokens: Sequence[Token]) -> Iterator[Node | _Open]:
    """Yield nodes for a flat list of tokens. Links within links become text."""
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
    """Yield ``text`` as nodes, with bare web addresses turned into links."""
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
    """Return the tree for a flat sequence of starts, ends and leaves."""
    root = Node("root")
    opened = [root]
    for one in flat:
        if isinstance(one, Node):
            opened[-1].children.append(one)
        elif one.node is None:
            opened.pop()
        else:
            if len(opened) > 3 * DEEPEST:  # markdown-it does not limit nested emphasis
                raise _TooMuchError
            opened[-1].children.append(one.node)
            opened.append(one.node)
    return root.children
