"""Steps that span several lines: OLMo and Composer (a header, then indented ``name=value`` lines), and the
boxes of Stable-Baselines3 (``|    loss    | 0.1 |`` between lines of dashes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..fields import STEP
from ..format import Format, Head, TextReader
from ..items import Parsed, Row
from ..names import alias, normal
from ..values import NUMBER, text_number

_HEAD = re.compile(r"\[(?:step|batch)=(\d+)(?:/(\d+))?\]:?\s*$")
_VALUE = re.compile(rf"^\s+(?:Train |Eval )?([A-Za-z][\w./\-]*)\s*[=:]\s*({NUMBER})\s*$", re.IGNORECASE)
_CELL = re.compile(rf"^\|\s*([A-Za-z][\w./\-]*)\s*\|\s*({NUMBER})\s*\|\s*$", re.IGNORECASE)
_DASHES = re.compile(r"^-{10,}\s*$")
_COUNTS = (*STEP, "total_timesteps")
_VALUES_LIMIT = 1000


class BlockParser:
    """Collect the values of a block. Its row is yielded with the next block, or at the end."""

    def __init__(self) -> None:
        self._row: Row | None = None

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        head = _HEAD.search(line)
        if head is not None or _DASHES.match(line):
            yield from self.finish()
            self._row = Row(number, {}, step=float(head[1]) if head else None)
        elif self._row is not None:
            self._take(self._row, line)

    def finish(self) -> Iterator[Parsed]:
        """Yield the row of an incomplete block."""
        row, self._row = self._row, None
        if row is not None and row.values and row.step is not None:
            yield row

    @staticmethod
    def _take(row: Row, line: str) -> None:
        found = _VALUE.match(line) or _CELL.match(line)
        value = text_number(found[2]) if found else None
        if found is None or value is None or len(row.values) >= _VALUES_LIMIT:
            return
        if normal(found[1]).rpartition("/")[2] in _COUNTS:
            row.step = value if row.step is None else row.step
        else:
            row.values[found[1]] = value


class BlockReader(TextReader):
    """Read lines, and the incomplete block at the end."""

    def __init__(self) -> None:
        self._blocks = BlockParser()
        super().__init__(self._blocks)

    def end(self) -> Iterator[Parsed]:
        yield from super().end()
        yield from self._blocks.finish()


def _sniff(head: Head) -> int:
    """Return the number of blocks with a known signal."""
    parser = BlockParser()
    rows = [row for number, line in enumerate(head.lines, 1) for row in parser.parse(line, number)]
    rows += list(parser.finish())
    return sum(any(alias(name) for name in row.values) for row in rows if isinstance(row, Row))


FORMAT = Format("blocks of indented lines", 28, _sniff, BlockReader)
