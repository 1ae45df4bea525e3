"""fairseq ``--log-format json``: ``.. | INFO | train_inner | {"num_updates": "100", "loss": "13.2", ..}``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..fields import Fields
from ..format import line_format
from ..items import Parsed, Unread
from .json_lines import loaded

_LINE = re.compile(r"\|\s*(train_inner|valid|test|dev)[^\s|]*\s*\|\s*(?=\{)")
_PREFIX = re.compile(r"^(?:valid|test|dev)_")
_LEFT = {"update", "wps", "ups", "wpb", "bsz", "train_wall", "wall", "gb_free", "clip", "ppl"}


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
        evaluation = found[1] != "train_inner"
        named = {_PREFIX.sub("", key): item for key, item in value.items()}
        row = self._fields.row(
            {key: item for key, item in named.items() if evaluation or key not in _LEFT}, number
        )
        row.evaluation, row.null = evaluation, ()
        yield row


FORMAT = line_format("fairseq JSON log", 27, FairseqParser)
