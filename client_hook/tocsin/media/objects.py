"""What a script can log besides numbers, as content of at most ``CONTENT_BYTES``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import Any, ClassVar

import msgspec

from ..core.config import plain
from ..core.redaction import Redactor
from ..core.values import kind_of, text
from .snapshot import Snapshot, UnreadableError, of_values

CONTENT_BYTES = 44 << 10
"""Maximum bytes of one object. The server takes events of 64 KiB, and base64 adds a third."""
VALUES = 1 << 20
"""Maximum number of values that a histogram counts; of more, every n-th."""
BINS, MOST_BINS = 64, 512
ROWS, CELL = 1_000, 500
"""Maximum number of rows of a table, and of characters of one of its cells."""


class Media:
    """Base of everything that is shown beside the numbers of a run."""

    kind: ClassVar[str] = ""

    def __init__(self, caption: str = "") -> None:
        self.problem = ""
        """Why it cannot be shown; empty if it can."""
        self.caption = self._text_of(caption)[:CELL]

    def _text_of(self, value: Any) -> str:
        """Return a value as text. If that fails, as in a script's own ``__str__``, note the problem."""
        try:
            return text(value)
        except Exception as error:
            self.problem = why(error)
            return ""

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`content` has nothing to wait for."""
        return True

    def content(self, clean: Redactor) -> tuple[bytes, dict[str, Any]]:
        """Return the content as bytes, and facts about it. Called by the sender's thread.

        Args:
            clean: Replaces secrets in texts.
        """
        raise NotImplementedError


class Text(Media):
    """A text, such as a generated sample; its first 44 KiB are kept."""

    kind = "text"

    def __init__(self, value: Any, caption: str = "") -> None:
        """Take the text.

        Args:
            value: A text, or an object that is shown as ``str`` shows it.
            caption: Shown with it.
        """
        super().__init__(caption)
        is_text = isinstance(value, str)
        known = self._text_of(value[:CONTENT_BYTES] if is_text else value)  # a text may have a gigabyte
        self._text = known[:CONTENT_BYTES]
        self._length = len(value) if is_text else len(known)

    def content(self, clean: Redactor) -> tuple[bytes, dict[str, Any]]:
        encoded = clean.text(self._text).encode()[:CONTENT_BYTES]
        shown = encoded.decode("utf-8", "ignore")
        facts = {"mime": "text/plain", "characters": self._length, "cut": len(shown) < self._length}
        return shown.encode(), facts


class Histogram(Media):
    """How the values of an array are distributed; NaN and infinities are counted separately."""

    kind = "histogram"

    def __init__(self, values: Any, bins: int = BINS, caption: str = "") -> None:
        """Take a snapshot.

        Args:
            values: An array or tensor of numbers, of any shape.
            bins: Number of bins, at most 512.
            caption: Shown with it.
        """
        super().__init__(caption)
        self._bins = BINS
        self._total = 0
        self._snapshot: Snapshot | None = None
        try:
            self._bins = max(1, min(int(bins), MOST_BINS))
            self._snapshot = of_values(values, VALUES)
            size = getattr(values, "numel", None)
            self._total = int(size()) if callable(size) else int(getattr(values, "size", 0)) or len(values)
        except Exception as error:
            self.problem = why(error)

    @property
    def is_ready(self) -> bool:
        return self._snapshot is None or self._snapshot.is_ready

    def content(self, clean: Redactor) -> tuple[bytes, dict[str, Any]]:
        import numpy

        assert self._snapshot is not None
        values = self._snapshot.array().astype("f8")
        finite = values[numpy.isfinite(values)]
        counts: Any = []
        edges: Any = [math.nan]
        if len(finite):
            with numpy.errstate(all="ignore"):
                counts, edges = numpy.histogram(finite, bins=self._bins)
        found = {
            "low": float(edges[0]),
            "high": float(edges[-1]),
            "counts": [int(count) for count in counts],
            "nan": int(numpy.isnan(values).sum()),
            "inf": int((values == math.inf).sum()),
            "-inf": int((values == -math.inf).sum()),
            "values": len(values),
            "of": self._total,
        }
        return _json(found), {"mime": "application/json", "nonfinite": len(values) - len(finite)}


class Table(Media):
    """Rows of numbers and texts; the first 1,000 are kept."""

    kind = "table"

    def __init__(
        self,
        columns: Any = None,
        rows: Iterable[Sequence[Any]] | None = None,
        *,
        data: Any = None,
        dataframe: Any = None,
        caption: str = "",
    ) -> None:
        """Take a snapshot of the rows.

        Args:
            columns: Names of the columns, or a data frame of pandas, polars or pyarrow.
            rows: The rows; ``data`` is W&B's name for them.
            data: See ``rows``.
            dataframe: A data frame, as in W&B.
            caption: Shown with it.
        """
        super().__init__(caption)
        self._columns: list[str] = []
        self._rows: list[list[Any]] = []
        self._total: int | None = 0
        """Number of rows; None if an iterator had more than are kept."""
        try:
            given = data if rows is None else rows
            frame = dataframe
            if frame is None:
                frame = next((one for one in (given, columns) if _is_frame(one)), None)
            if frame is not None:
                columns, given = _head_of(frame)
            self._columns = [text(name)[:CELL] for name in (() if columns is None else columns)]
            self._add_rows(() if given is None else given, frame)
        except Exception as error:
            self.problem = why(error)

    def _add_rows(self, given: Any, frame: Any) -> None:
        """Read the first rows only: the training thread waits for this."""
        if not isinstance(given, Iterable):
            raise UnreadableError(f"its rows are {kind_of(given)}, expected a list of rows")
        rows = iter(given)
        for row in islice(rows, ROWS):
            if not isinstance(row, Iterable):
                raise UnreadableError(f"a row is {kind_of(row)}, expected a list of cells")
            self.add_data(*row)
        sized = given if frame is None else frame
        if isinstance(sized, Sized):
            self._total = len(sized)
        elif next(rows, None) is not None:
            self._total = None

    def add_data(self, *row: Any) -> None:
        """Add a row."""
        self._total = None if self._total is None else self._total + 1
        if len(self._rows) < ROWS:
            self._rows.append([_cell(value) for value in row])

    def content(self, clean: Redactor) -> tuple[bytes, dict[str, Any]]:
        rows = clean.data(self._rows)
        width = max((len(row) for row in rows), default=0)
        columns = self._columns + [f"column {at + 1}" for at in range(len(self._columns), width)]
        encoded = _json({"columns": columns, "rows": rows})
        while len(encoded) > CONTENT_BYTES and rows:
            rows = rows[: len(rows) * 3 // 4]
            encoded = _json({"columns": columns, "rows": rows})
        is_cut = self._total is None or len(rows) < self._total
        facts = {"mime": "application/json", "rows": self._total, "cut": is_cut}
        return encoded, facts


def why(error: Exception) -> str:
    """Return why an object cannot be shown."""
    return str(error) if isinstance(error, UnreadableError) else f"{type(error).__name__}: {error}"


def _cell(value: Any) -> Any:
    """Return a value of a table as a number, a text, a truth value or None."""
    found = plain(value)
    if isinstance(found, float) and not math.isfinite(found):
        return str(found)
    if found is None or isinstance(found, (bool, int, float)):
        return found
    return text(found[:CELL] if isinstance(found, str) else found)[:CELL]


def _is_frame(value: Any) -> bool:
    """Return whether a value is a data frame of pandas, polars or pyarrow."""
    return any(hasattr(value, name) for name in ("itertuples", "iter_rows", "to_pydict"))


def _head_of(frame: Any) -> tuple[Any, Iterable[Sequence[Any]]]:
    """Return the names of the columns of a data frame, and its first ``ROWS`` rows."""
    if hasattr(frame, "itertuples"):
        return frame.columns, frame.head(ROWS).itertuples(index=False, name=None)
    if hasattr(frame, "iter_rows"):
        return frame.columns, frame.head(ROWS).iter_rows()
    return frame.column_names, zip(*frame.slice(0, ROWS).to_pydict().values(), strict=True)


def _json(found: Any) -> bytes:
    return msgspec.json.encode(found)
