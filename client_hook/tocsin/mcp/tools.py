"""All tools, in the order in which an agent uses them."""

from __future__ import annotations

from . import checks, compare, console, incidents, runs, series
from .tool import Tool

TOOLS: tuple[Tool, ...] = (
    runs.TOOL,
    incidents.EXPLAIN,
    compare.TOOL,
    series.TOOL,
    console.TOOL,
    checks.DIAGNOSE,
    checks.BACKTEST,
    incidents.ACKNOWLEDGE,
)
