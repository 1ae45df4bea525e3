"""The formats of an export."""

from __future__ import annotations

import enum


class Format(enum.StrEnum):
    """Format of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
