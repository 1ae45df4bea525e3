"""fairseq ``--log-format json``: ``.. | INFO | train_inner | {"num_updates": "100", "loss": "13.2", ..}``.

``fairseq-hydra-train`` writes ``[..][train_inner][INFO] - {..}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..fields import Fields
from ..format import line_format
from ..items import Parsed, Unread
from .json_lines import loaded

_KIND = r"(train_inner|valid|test|dev)"
_LINE = re.compile(rf"(?:\|\s*{_KIND}[^\s|]*\s*\|\s*|\[{_KIND}[^\s\]]*\]\[\w+\] - )(?=\{{)")
_PREFIX = re.compile(r"^(?:valid|test|dev)_")
_SPEED = {"wps", "ups", "wpb", "bsz", "train_wall", "wall", "gb_free"}
_LEFT = _SPEED | {"update", "clip", "ppl"}


class FairseqParser:
    """Parse fairseq lines: ``train_inner`` steps and ``valid`` evaluations; epoch averages are skipped."""

    def __init__(self) -> None:
        self._fields = Fields()

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        found = _LINE.search(line)
        if found is None or not line.rstrip().endswith("}"):
            return
        value = loaded(line[found.end() :])
        if value is None:
            yield Unread(number, "a JSON object was expected")
            return
        evaluation = (found[1] or found[2]) != "train_inner"
        named = {_PREFIX.sub("", key): item for key, item in value.items()}
        row = self._fields.row(
            {key: item for key, item in named.items() if key not in (_SPEED if evaluation else _LEFT)}, number
        )
        row.evaluation, row.null = evaluation, ()
        yield row


FORMAT = line_format("fairseq JSON log", 27, FairseqParser)
