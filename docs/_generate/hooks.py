"""MkDocs hooks: generate the reference pages from the code, and the page about costs from the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import cli_pages
import cost_page
import http_pages
import mcp_page
import rule_pages
import settings_page

PAGES: dict[str, Callable[[], str]] = {
    "explanation/cost.md": cost_page.page,
    "reference/cli-server.md": cli_pages.server_page,
    "reference/cli-hook.md": cli_pages.hook_page,
    "reference/settings.md": settings_page.page,
    "reference/http-routes.md": http_pages.routes_page,
    "reference/http-schemas.md": http_pages.schemas_page,
    "reference/mcp-tools.md": mcp_page.page,
    "reference/rules/index.md": rule_pages.index_page,
}
"""Generated page -> the function that returns its Markdown. The pages of single rules come on top."""
RULES_ENTRY = "Rules"
"""The navigation entry that receives one page per rule."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add one navigation entry per rule below ``Rules``."""
    for entries in _entries(config.nav):
        if RULES_ENTRY in entries:
            entries[RULES_ENTRY] = ["reference/rules/index.md", *rule_pages.navigation()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    for rule in rule_pages.rules():
        path = f"reference/rules/{rule.id}.md"
        files.append(File.generated(config, path, content=rule_pages.rule_page(rule)))
    return files


def _entries(nav: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping of the navigation tree."""
    for entry in nav or []:
        if isinstance(entry, dict):
            yield entry
            for below in entry.values():
                if isinstance(below, list):
                    yield from _entries(below)
