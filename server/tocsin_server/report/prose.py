"""Render Markdown notes as HTML from the same tree as on the pages. Pure."""

from __future__ import annotations

from tocsin_server.core.markdown import LONGEST, Node, parse
from tocsin_server.report.words import esc

_TAGS = {
    "paragraph": "p", "quote": "blockquote", "list": "ul", "ordered_list": "ol", "item": "li", "row": "tr",
    "head_cell": "th", "cell": "td", "strong": "strong", "em": "em",
}  # fmt: skip


def prose(source: str) -> str:
    """Return ``source`` as HTML. Text above the limit is cut, with a note in the report."""
    cut = (
        "<p><em>The notes are cut off here: they are too long for a report.</em></p>"
        if len(source) > LONGEST
        else ""
    )
    return _inside(parse(source)) + cut


def _inside(nodes: list[Node]) -> str:
    return "".join(_html(node) for node in nodes)


def _html(node: Node) -> str:
    match node.kind:
        case "text":
            return esc(node.text)
        case "code":
            return f"<code>{esc(node.text)}</code>"
        case "code_block":
            return f"<pre tabindex=0><code>{esc(node.text)}</code></pre>"
        case "rule":
            return "<hr>"
        case "break":
            return "<br>"
        case "link":
            label = _inside(node.children)
            return f'<a href="{esc(node.href)}" rel="noopener noreferrer nofollow">{label}</a>'
        case "heading":
            level = min(6, node.level + 2)
            return f"<h{level}>{_inside(node.children)}</h{level}>"
        case "table":
            return f'<div class="scroll" tabindex="0"><table>{_inside(node.children)}</table></div>'
    tag = _TAGS[node.kind]
    return f"<{tag}>{_inside(node.children)}</{tag}>"
