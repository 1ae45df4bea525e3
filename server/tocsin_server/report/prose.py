"""Notes in Markdown as HTML: a safe subset, as the run page shows it. HTML in them is shown as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tocsin_server.report.words import esc

LONGEST = 100_000
DEEPEST = 4
_SAFE = re.compile(r"https?://", re.IGNORECASE)
_INLINE = re.compile(
    r"`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*|__(?P<strong2>[^_\n]+)__|\*(?P<em>[^*\s][^*\n]*)\*"
    r"|\[(?P<label>[^\]\n]{1,400})\]\((?P<href>[^()\s]{1,2000})\)|(?P<bare>https?://[^\s<>\"')\]]{1,2000})"
)
_ITEM = re.compile(r"^ {0,3}([-*+]|\d{1,9}[.)])\s+(.*)$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_RULE = re.compile(r"^ {0,3}([-*_])(\s*\1){2,}\s*$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_QUOTE = re.compile(r"^ {0,3}> ?")


def prose(source: str) -> str:
    """``source`` as HTML; what is longer than :data:`LONGEST` letters is cut and said so."""
    cut = "<p><em>The notes go on beyond what a report holds.</em></p>" if len(source) > LONGEST else ""
    lines = source[:LONGEST].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join(_blocks(lines, 0)) + cut


def _blocks(lines: list[str], depth: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        block, at = _block(lines, at, depth)
        yield block


def _block(lines: list[str], at: int, depth: int) -> tuple[str, int]:
    line = lines[at]
    if not line.strip():
        return "", at + 1
    if _FENCE.match(line):
        return _fence(lines, at)
    if heading := _HEADING.match(line):
        level = min(6, len(heading[1]) + 2)
        return f"<h{level}>{inline(heading[2])}</h{level}>", at + 1
    if _RULE.match(line):
        return "<hr>", at + 1
    if _QUOTE.match(line) and depth < DEEPEST:
        return _quote(lines, at, depth)
    if _ITEM.match(line):
        return _list(lines, at)
    return _paragraph(lines, at)


def _fence(lines: list[str], at: int) -> tuple[str, int]:
    mark, end = lines[at].strip()[:3], at + 1
    while end < len(lines) and not lines[end].strip().startswith(mark):
        end += 1
    return f"<pre tabindex=0><code>{esc(chr(10).join(lines[at + 1 : end]))}</code></pre>", end + 1


def _quote(lines: list[str], at: int, depth: int) -> tuple[str, int]:
    end = at
    while end < len(lines) and _QUOTE.match(lines[end]):
        end += 1
    inner = [_QUOTE.sub("", line, count=1) for line in lines[at:end]]
    return f"<blockquote>{''.join(_blocks(inner, depth + 1))}</blockquote>", end


def _list(lines: list[str], at: int) -> tuple[str, int]:
    items: list[str] = []
    ordered, end = lines[at].strip()[0].isdigit(), at
    while end < len(lines):
        item = _ITEM.match(lines[end])
        if item and item[1][0].isdigit() == ordered:
            items.append(item[2])
        elif not item and items and re.match(r"\s+\S", lines[end]):
            items[-1] += f" {lines[end].strip()}"
        else:
            break
        end += 1
    kind = "ol" if ordered else "ul"
    return f"<{kind}>{''.join(f'<li>{inline(text)}</li>' for text in items)}</{kind}>", end


def _paragraph(lines: list[str], at: int) -> tuple[str, int]:
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _begins(lines[end]):
        end += 1
    return f"<p>{inline(chr(10).join(line.strip() for line in lines[at:end]))}</p>", end


def _begins(line: str) -> bool:
    return any(kind.match(line) for kind in (_HEADING, _FENCE, _QUOTE, _ITEM))


def inline(text: str) -> str:
    """One line's code, emphasis and links to http and https; all else is text."""
    out, last = [], 0
    for found in _INLINE.finditer(text):
        out += [esc(text[last : found.start()]), _span(found)]
        last = found.end()
    return "".join([*out, esc(text[last:])])


def _span(found: re.Match[str]) -> str:
    parts = found.groupdict()
    if parts["code"] is not None:
        return f"<code>{esc(parts['code'])}</code>"
    if strong := parts["strong"] or parts["strong2"]:
        return f"<strong>{esc(strong)}</strong>"
    if parts["em"]:
        return f"<em>{esc(parts['em'])}</em>"
    href, label = parts["href"] or parts["bare"], parts["label"] or parts["bare"]
    if not _SAFE.match(href):
        return esc(found[0])
    return f'<a href="{esc(href)}" rel="noopener noreferrer nofollow">{esc(label)}</a>'
