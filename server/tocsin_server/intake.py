"""What a trainer may hand in: messages and limits in, sound data and refusals out. Pure.

Every refusal says what was expected and what came (docs/protocol.md). One bad column, step or
event never takes its neighbours along.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.protocol import Event, Finish, Hello, Records, Refused, Sparse
from tocsin_server import exactjson
from tocsin_server.domain import I64, Column

HIGHEST = 1 << 62
"""Numbers and times stay below it, so that adding a clock offset fits the databases' 64 bits."""
MOST_RECORDS = 1 << 20
"""Records in one message; a frame of the default limit cannot hold more than a quarter of it."""
MOST_SENTENCES = 8
"""Refusals told of one message; the others are counted in the last one."""
MOST_TAGS = 64
SHORT = 64
"""Up to so many numbers a plain loop beats numpy."""
RUN_ID = re.compile(r"[A-Za-z0-9._:-]+")
"""A run id stands in addresses and file names."""
PLAIN_NAME = "a name of 1 to {} bytes without control characters"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes and counts that one trainer may not exceed."""

    frame_bytes: int = 4 << 20
    series: int = 512
    name_bytes: int = 256
    records_per_s: int = 20_000
    event_bytes: int = 64 << 10
    config_bytes: int = 1 << 20

    def told(self) -> dict[str, int]:
        """The limits as ``welcome`` tells them."""
        return {
            "frame_bytes": self.frame_bytes,
            "series": self.series,
            "name_bytes": self.name_bytes,
            "records_per_s": self.records_per_s,
            "event_bytes": self.event_bytes,
        }


@dataclass(frozen=True, slots=True)
class Sound:
    """What is good of a ``records`` message: ``n`` records from number ``seq`` on (``n`` may be 0).

    ``last_seq`` is the highest number the message dealt with, refused records included; None
    where the message does not even say which numbers it holds.
    """

    seq: int
    last_seq: int | None
    n: int = 0
    step: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    time_ns: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    columns: Mapping[str, Column] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()


def shown(value: str, most: int = 60) -> str:
    """An outsider's text for a sentence: quoted, escaped, and short."""
    if len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}… ({len(value.encode('utf-8', 'replace'))} bytes)"


def is_name(text: str, limit_bytes: int) -> bool:
    """Whether ``text`` can be the name of a series, run or project."""
    if not 0 < len(text.encode("utf-8", "replace")) <= limit_bytes:
        return False
    return text.isprintable() or not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text)


def read_records(
    message: Records, *, after: int, offset_ns: int, known: Collection[str], limits: Limits
) -> Sound:
    """The records of ``message`` numbered above ``after``, times moved by ``offset_ns``.

    ``known`` are the series that the run has already; new ones count against ``limits.series``.
    """
    wrong = _misshapen(message)
    if wrong is not None:
        countable = message.seq >= 0 and 0 < message.n <= MOST_RECORDS and message.seq < HIGHEST
        last = message.seq + message.n - 1 if countable else None
        return Sound(seq=max(after + 1, 0), last_seq=last, refused=(wrong,))
    last = message.seq + message.n - 1
    if last <= after:
        return Sound(seq=after + 1, last_seq=last)
    columns, refused = _read_columns(message, known, limits)
    step = np.frombuffer(message.step, "<i8")
    keep, negative = _sound_rows(step, message.seq, after)
    refused += negative
    return _kept(message, step, columns, keep, offset_ns, refused)


def _misshapen(message: Records) -> Refused | None:
    """The refusal of a message whose numbers, steps and times do not fit each other."""
    n, seq = message.n, message.seq
    if not (0 <= seq < HIGHEST and 0 < n <= MOST_RECORDS):
        expected = f"seq from 0 and n from 1 to {MOST_RECORDS}"
        return _refused("records", "bad-batch", expected, f"seq {seq} and n {n}")
    for name, body in (("step", message.step), ("t", message.t)):
        if len(body) != 8 * n:
            return _refused("records", "bad-batch", f"{name} of {8 * n} bytes", f"{len(body)} bytes", seq)
    earliest, newest = _ends(np.frombuffer(message.t, "<i8"))
    if earliest < 0 or newest >= HIGHEST:
        return _refused("records", "bad-batch", "times in Unix ns", f"{earliest} to {newest}", seq)
    return None


def _ends(numbers: I64) -> tuple[int, int]:
    """Lowest and highest of ``numbers`` [n], n > 0."""
    if numbers.size <= SHORT:
        few = numbers.tolist()
        return min(few), max(few)
    return int(numbers.min()), int(numbers.max())


def _refused(scope: str, code: str, expected: str, got: str, seq: int | None = None) -> Refused:
    return Refused(scope=scope, code=code, expected=expected, got=got, seq=seq)


def _read_columns(
    message: Records, known: Collection[str], limits: Limits
) -> tuple[dict[str, Column], list[Refused]]:
    columns: dict[str, Column] = {}
    faults: list[Refused] = []
    room, left_out = limits.series - len(known), 0
    for name, body in message.cols.items():
        new = name not in known
        read = _read_column(name, body, message.n, limits.name_bytes if new else None)
        if isinstance(read, str):
            faults.append(_bad_column(name, body, message, read))
        elif new and room <= 0:
            left_out += 1
        else:
            room -= new
            columns[name] = read
    refused = _few(faults, message.seq)
    if left_out:
        got = f"{left_out} more, which are left out"
        refused.append(
            _refused("series", "too-many-series", f"at most {limits.series} series a run", got, message.seq)
        )
    return columns, refused


def _few(faults: list[Refused], seq: int) -> list[Refused]:
    """The first few refusals, and one that counts the rest."""
    if len(faults) <= MOST_SENTENCES:
        return faults
    rest = len(faults) - MOST_SENTENCES
    more = _refused("series", "bad-column", "columns as docs/protocol.md says", f"{rest} more bad ones", seq)
    return [*faults[:MOST_SENTENCES], more]


def _bad_column(name: str, body: bytes | Sparse, message: Records, expected: str) -> Refused:
    if isinstance(body, Sparse):
        got = f"{shown(name)} with {len(body.at)} bytes of at, {len(body.v)} of v, n {message.n}"
    else:
        got = f"{shown(name)} of {len(body)} bytes, n {message.n}"
    return _refused("series", "bad-column", expected, got, message.seq)


def _read_column(name: str, body: bytes | Sparse, n: int, name_bytes: int | None) -> Column | str:
    """The column, or what was expected of it. ``name_bytes`` None: the name is known already."""
    if name_bytes is not None and not is_name(name, name_bytes):
        return PLAIN_NAME.format(name_bytes)
    if isinstance(body, bytes):
        return Column(np.frombuffer(body, "<f8")) if len(body) == 8 * n else f"f64le[n], {8 * n} bytes"
    if len(body.at) % 4 or len(body.v) != 2 * len(body.at):
        return "at u32le[k] and v f64le[k]"
    at = np.frombuffer(body.at, "<u4")
    if at.size and (int(at[-1]) >= n or bool((at[1:] <= at[:-1]).any())):
        return f"at ascending and below n, {n}"
    return Column(np.frombuffer(body.v, "<f8"), at)


def _sound_rows(step: I64, seq: int, after: int) -> tuple[NDArray[np.bool_] | None, list[Refused]]:
    """Which rows are new and not negative [n] (None: all), and the refusal of the negative ones."""
    if seq > after and _ends(step)[0] >= 0:
        return None, []
    keep = np.arange(seq, seq + step.size) > after
    negative = keep & (step < 0)
    if not negative.any():
        return keep, []
    count, lowest = int(negative.sum()), int(step[negative].min())
    got = f"{count} records with negative steps, the lowest {lowest}"
    return keep & ~negative, [_refused("records", "negative-step", "steps from 0", got, seq)]


def _kept(
    message: Records,
    step: I64,
    columns: dict[str, Column],
    keep: NDArray[np.bool_] | None,
    offset_ns: int,
    refused: list[Refused],
) -> Sound:
    last, time_ns = message.seq + message.n - 1, np.frombuffer(message.t, "<i8") + offset_ns
    if keep is None or keep.all():
        return Sound(message.seq, last, message.n, step, time_ns, columns, tuple(refused))
    rows = np.flatnonzero(keep)
    if not rows.size:
        return Sound(seq=last + 1, last_seq=last, refused=tuple(refused))
    place = np.cumsum(keep) - 1
    taken = {name: _rows_of(column, keep, place) for name, column in columns.items()}
    # Records after a refused one move up within this message; their numbers stay inside its range.
    first = message.seq + int(rows[0])
    return Sound(first, last, int(rows.size), step[rows], time_ns[rows], taken, tuple(refused))


def _rows_of(column: Column, keep: NDArray[np.bool_], place: NDArray[np.intp]) -> Column:
    if column.at is None:
        return Column(column.v[keep])
    chosen = keep[column.at]
    return Column(column.v[chosen], place[column.at[chosen]].astype(np.uint32))


VITALS = frozenset({"loss", "grad_norm", "scale", "lr"})
"""One of each a step and writer: the same step again is another attempt under an old number."""


class StepOrder:
    """Notices steps of one writer that come again or go back. They are kept as sent; this only tells.

    Several records at one step are ordinary: two optimizers take turns, and what a script logs or checks
    at each micro-step belongs to the step they are gathered for. So a step that comes again counts only
    in a vital sign, of which a step has one; one that goes back counts in every series.
    """

    def __init__(self) -> None:
        self._highest = -1
        self._of_series: dict[str, int] = {}

    def notice(self, sound: Sound) -> Refused | None:
        """The sentence about the first series of ``sound`` whose steps do not ascend, or None."""
        if not sound.n:
            return None
        all_steps = sound.step.tolist()
        if all_steps[0] > self._highest and all(one < other for one, other in pairwise(all_steps)):
            self._note(sound, all_steps)
            return None
        found: Refused | None = None
        for name, column in sound.columns.items():
            steps = sound.step if column.at is None else sound.step[column.at]
            if not steps.size:
                continue
            before = self._of_series.get(name, -1)
            if found is None:
                found = _out_of_order(name, steps, before, sound.seq)
            self._of_series[name] = max(before, int(steps[-1]))
        self._highest = max(self._highest, *all_steps)
        return found

    def _note(self, sound: Sound, steps: list[int]) -> None:
        """Steps that ascend, as nearly always."""
        self._highest = steps[-1]
        for name, column in sound.columns.items():
            if column.at is None:
                self._of_series[name] = steps[-1]
            elif column.at.size:
                self._of_series[name] = steps[int(column.at[-1])]


def _out_of_order(name: str, steps: I64, before: int, seq: int) -> Refused | None:
    line = np.concatenate(([before], steps))
    later, earlier = line[1:], line[:-1]  # compared: a difference of steps can leave int64
    back = np.flatnonzero(later <= earlier if name in VITALS else later < earlier)
    if not back.size:
        return None
    was, came = int(line[back[0]]), int(line[back[0] + 1])
    got = f"step {came} of {shown(name)} after step {was}; kept as sent"
    return _refused("notice", "step-order", "ascending steps of a series", got, seq)


def markup_notice(hello: Hello) -> Refused | None:
    """A sentence about markup in a name. It is kept as sent and escaped wherever it is shown."""
    for label, text in (("project", hello.project), ("name", hello.name)):
        if re.search(r"<[A-Za-z/!]", text):
            got = f"{shown(text)}; kept as sent, escaped where it is shown"
            return _refused("notice", "markup-in-name", f"a {label} without markup", got)
    return None


def read_hello(hello: Hello, limits: Limits) -> tuple[Hello, list[Refused]]:
    """``hello`` without what is too large in it, and the refusals. Scope ``connection``: not acceptable."""
    fault = _name_fault(hello, limits) or _number_fault(hello)
    if fault is not None:
        return hello, [_refused("connection", "bad-hello", *fault)]
    notice = markup_notice(hello)
    told = [notice] if notice else []
    for part in ("config", "versions", "optimizers", "scalers", "schedulers", "notes"):
        wrong = _too_large(getattr(hello, part), limits.config_bytes)
        if wrong is not None:
            told.append(_refused("event", "config-size", f"{part} of {wrong[0]}", wrong[1]))
            default = next(item for item in msgspec.structs.fields(Hello) if item.name == part)
            hello = msgspec.structs.replace(hello, **{part: _default_of(default)})
    return hello, told


def _default_of(part: msgspec.structs.FieldInfo) -> Any:
    return part.default if part.default is not msgspec.NODEFAULT else part.default_factory()


def _name_fault(hello: Hello, limits: Limits) -> tuple[str, str] | None:
    most = limits.name_bytes
    for label, text in (("project", hello.project), ("name", hello.name), ("attempt", hello.writer.attempt)):
        if not is_name(text, most):
            return f"{label}: {PLAIN_NAME.format(most)}", shown(text)
    others = {"host": hello.host, "boot": hello.writer.boot, "launch": hello.launch}
    others |= {"rendezvous": hello.rendezvous} | {f"tag {no}": tag for no, tag in enumerate(hello.tags)}
    for label, text in others.items():
        if text and not is_name(text, most):
            return f"{label}: {PLAIN_NAME.format(most)}", shown(text)
    if len(hello.tags) > MOST_TAGS:
        return f"at most {MOST_TAGS} tags", str(len(hello.tags))
    return _run_id_fault(hello, most)


def _run_id_fault(hello: Hello, most: int) -> tuple[str, str] | None:
    if not hello.run and hello.rendezvous:
        return None
    if len(hello.run) > most or not RUN_ID.fullmatch(hello.run):
        return f"a run id of 1 to {most} letters, digits and . _ : -", shown(hello.run)
    return None


def _number_fault(hello: Hello) -> tuple[str, str] | None:
    ranges = {
        "rank": (hello.writer.rank, 0, 1 << 31),
        "world_size": (hello.world_size, 1, 1 << 31),
        "pid": (hello.writer.pid, 0, HIGHEST),
        "started_ns": (hello.writer.started_ns, 0, HIGHEST),
        "time_ns": (hello.time_ns, 0, HIGHEST),
        "restarts": (hello.restarts, 0, 1 << 31),
        "planned_steps": (hello.planned_steps or 0, 0, HIGHEST),
    }
    for label, (value, lowest, beyond) in ranges.items():
        if not lowest <= value < beyond:
            return f"{label} from {lowest} to {beyond - 1}", str(value)
    return None


def _too_large(value: Any, limit_bytes: int) -> tuple[str, str] | None:
    """(expected, got) where ``value`` is no plain data or too much of it."""
    try:
        size = len(exactjson.dumps(value).encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError) as error:
        return "plain data (numbers, texts, lists, maps)", str(error)
    return (f"at most {limit_bytes} bytes", f"{size} bytes") if size > limit_bytes else None


def event_fault(event: Event, limits: Limits) -> Refused | None:
    """The refusal of an event that cannot be kept, or None."""
    if not is_name(event.kind, limits.name_bytes):
        return _refused(
            "event", "bad-event", PLAIN_NAME.format(limits.name_bytes), shown(event.kind), event.no
        )
    if not 0 <= event.t < HIGHEST or not 0 <= (event.step or 0) < HIGHEST:
        got = f"t {event.t} and step {event.step}"
        return _refused("event", "bad-event", "a time in Unix ns and a step from 0", got, event.no)
    wrong = _too_large(event.data, limits.event_bytes)
    return _refused("event", "event-size", *wrong, event.no) if wrong else None


def finish_fault(finish: Finish) -> Refused | None:
    """The refusal of a finish that says nothing usable, or None."""
    if finish.state not in ("finished", "failed"):
        return _refused("event", "bad-event", "state finished or failed", shown(finish.state), finish.no)
    if not 0 <= finish.t < HIGHEST or not 0 <= finish.records < HIGHEST:
        got = f"t {finish.t} and records {finish.records}"
        return _refused("event", "bad-event", "a time in Unix ns and a count of records", got, finish.no)
    return None


def error_of(finish: Finish, limits: Limits) -> dict[str, Any]:
    """Why a run failed; an error too large to keep is shortened, for the end itself must count."""
    if _too_large(finish.error, limits.event_bytes) is None:
        return dict(finish.error)
    short = {key: str(finish.error.get(key, ""))[:2000] for key in ("type", "message")}
    return {**short, "lines": []}


def frame_refusal(size: int, limits: Limits, seq: int | None = None) -> Refused:
    """The sentence about a frame above the limit; ``seq``: the first record in it, where it could be read."""
    return _refused("records", "frame-size", f"at most {limits.frame_bytes} bytes", f"{size} bytes", seq)
