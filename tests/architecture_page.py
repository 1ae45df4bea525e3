"""Read the packages that docs/internals/architecture.md draws and lists."""

from __future__ import annotations

import re

from tests.import_graph import ROOT


def section(heading: str) -> str:
    """Return the text of one section of the page."""
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text("utf-8")
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def drawn(text: str) -> list[str]:
    """Return the packages in the picture of a section, in the order of its arrows."""
    picture = text.split("```mermaid")[1].split("```")[0]
    groups = re.findall(r"subgraph (\w+) ", picture)
    *chains, links = (line.strip().split(" --> ") for line in picture.splitlines() if " --> " in line)
    assert links == groups, "the last line links the groups in their order"
    return [name for chain in chains for name in chain]


def listed(text: str) -> list[str]:
    """Return the packages in the table of a section."""
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
