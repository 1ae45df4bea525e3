"""Parse messages about a step: overflows, NaN losses, skipped batches.

DeepSpeed, Apex, fairseq, Swin, Lightning and many scripts print them. A message without a step belongs to the
step after the newest record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .items import Row
from .values import INF, NAN, NUMBER, text_number

_AT = r"(?:[^.!\n]{0,20}?\bat\s+(?:\w+\s+)?(batch|step|iter(?:ation)?)\s*[#:=]?\s*(\d+))?"
_DEEPSPEED = re.compile(
    r"OVERFLOW!(?: Rank (\d+))? Skipping step\. Attempted loss scale: ([\d.e+\-]+\d)", re.IGNORECASE
)
_LOWERED = re.compile(
    r"gradient overflow\b.{0,80}?(?:loss scaler (\d+) )?(?:reducing|setting) loss scale to:? ([\d.e+\-]*\d)",
    re.IGNORECASE,
)
_GRADIENT = re.compile(
    r"\b(inf(?:inite)?|nan|non-?finite)\s+(?:gradients?|grad(?:ient)?[ _]norm)\b" + _AT,
    re.IGNORECASE,
)
_LOSS = re.compile(
    r"\b(?:(nan|inf(?:inite)?|non-?finite)(?:/inf)?\s+loss\b|"
    r"loss (?:is|returned in .{1,30}? is) (nan|inf|infinite)\b)" + _AT,
    re.IGNORECASE,
)
_SCALER = re.compile(
    r"\bscaler\b[^:\n]{0,40}?\b(?:dropping|low|scale)\b[^:\n]{0,16}:\s*(" + NUMBER + ")", re.IGNORECASE
)
_HINT = re.compile(r"overflow|inf|nan|finite|scaler", re.IGNORECASE)


def rows_of(line: str, number: int) -> Iterator[Row]:
    """Yield the rows of the messages in ``line``."""
    if not _HINT.search(line):
        return
    for pattern, read in _SENTENCES:
        found = pattern.search(line)
        row = read(found, number) if found else None
        if row is not None:
            if re.search(r"\bskip", line, re.IGNORECASE) and "skipped" not in row.values:
                row.values["stepped"] = 0.0
            yield row
            return


def _overflow(found: re.Match[str], number: int) -> Row | None:
    scale = text_number(found[2])
    if scale is None or found[1] not in (None, "0"):
        return None
    return Row(number, {"scale": scale, "skipped": 1.0}, between=True, ours=True)


def _gradient(found: re.Match[str], number: int) -> Row | None:
    value = NAN if found[1].lower() == "nan" else INF
    return _placed(Row(number, {"grad_norm": value}, ours=True), found[2], found[3])


def _loss(found: re.Match[str], number: int) -> Row | None:
    word = (found[1] or found[2]).lower()
    return _placed(
        Row(number, {"loss": INF if word.startswith("inf") else NAN}, ours=True), found[3], found[4]
    )


def _scaler(found: re.Match[str], number: int) -> Row | None:
    scale = text_number(found[1])
    return None if scale is None else Row(number, {"scale": scale}, between=True, again=True, ours=True)


def _placed(row: Row, word: str | None, at: str | None) -> Row:
    if at is None:
        row.between = row.again = True
    elif word is not None and word.lower() == "batch":
        row.iteration = float(at)
    else:
        row.step = float(at)
    return row


_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], int], Row | None]], ...] = (
    (_DEEPSPEED, _overflow),
    (_LOWERED, _overflow),
    (_LOSS, _loss),
    (_GRADIENT, _gradient),
    (_SCALER, _scaler),
)
