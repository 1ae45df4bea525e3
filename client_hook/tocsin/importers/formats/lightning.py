"""Lightning's ``CSVLogger``: ``metrics.csv`` with epoch, step and one sparse column for each metric."""

from __future__ import annotations

from ..format import Format, Head
from .csv_table import header_of, table_format

_TABLE = table_format("Lightning metrics.csv", 31, ("epoch", "step"))


def _sniff(head: Head) -> int:
    header = header_of(head)
    named_so = head.name == "metrics.csv" or any(name.endswith(("_step", "_epoch")) for name in header)
    return _TABLE.sniff(head) if named_so else 0


FORMAT = Format(_TABLE.name, _TABLE.order, _sniff, _TABLE.reader)
