"""Validation of what a client sends: each error gets a description, and valid parts are kept."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.protocol import Event, Finish, Hello, Records, Refused, Sparse
from tocsin_server.core.models import Writer
from tocsin_server.runs.validation.events import error_of, event_problem, finish_problem
from tocsin_server.runs.validation.frames import TooLarge, read_message
from tocsin_server.runs.validation.handshake import read_handshake, read_sealed
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.runs.validation.records import (
    MOST_SENTENCES,
    Position,
    ValidatedRecords,
    read_records,
)
from tocsin_server.runs.validation.step_order import StepOrder

LIMITS = Limits(series=4, name_bytes=16, event_bytes=200, config_bytes=300)
Make = Callable[..., Records]


def taken(
    message: Records, *, after: int = -1, known: set[str] | None = None, offset_ns: int = 0
) -> ValidatedRecords:
    position = Position(Writer("r_1", 0, 1, 0), 1, after, -1, offset_ns, known or set())
    return read_records(message, position, LIMITS)


def codes(valid: ValidatedRecords) -> list[str]:
    return [refusal.code for refusal in valid.rejected]


def test_values_pass_to_the_bit(make_records: Make, make_sparse: Callable[..., Sparse]) -> None:
    """NaN, infinities, -0.0 and missing values are unchanged."""
    odd = [math.nan, math.inf, -math.inf, -0.0]
    valid = taken(make_records(0, [0, 1, 2, 3], loss=odd, lr=make_sparse([1, 3], [0.5, math.nan])))
    assert valid.rejected == ()
    assert valid.batch.columns["loss"].v.tobytes() == protocol.little_endian("d", odd)
    assert [value is None for value in valid.batch.columns["lr"].dense(4)] == [True, False, True, False]


def test_times_move_to_the_servers_clock(make_records: Make) -> None:
    """The offset of the client's clock is added to every record's time."""
    message = make_records(0, [0, 1], loss=[1.0, 2.0])
    moved = taken(message, offset_ns=-5)
    assert (moved.batch.time_ns == np.frombuffer(message.t, "<i8") - 5).all()


def test_a_step_beyond_2_to_53_affects_only_itself(make_records: Make) -> None:
    """It is rejected with an error and acked; 2^53 itself is a step."""
    message = make_records(0, [0, 2**63 - 1, 2**53, 2**53 + 1], loss=[0.0, 1.0, 2.0, 3.0])
    valid = taken(message)
    assert codes(valid) == ["step-too-large"]
    assert valid.rejected[0].got == "2 records with larger steps, the highest 9223372036854775807"
    assert (valid.batch.step.tolist(), valid.last_seq) == ([0, 2**53], 3)
    assert valid.batch.columns["loss"].v.tolist() == [0.0, 2.0]


def test_a_resend_is_applied_once(make_records: Make) -> None:
    """A known batch adds nothing; an overlapping one adds only what is new."""
    message = make_records(10, [10, 11, 12], loss=[1.0, 2.0, 3.0])
    assert taken(message, after=12).batch.n == 0
    overlapping = taken(message, after=11)
    assert (overlapping.batch.seq, overlapping.batch.n, overlapping.last_seq) == (12, 1, 12)
    assert overlapping.batch.columns["loss"].v.tolist() == [3.0]


def test_a_negative_step_affects_only_itself(make_records: Make, make_sparse: Callable[..., Sparse]) -> None:
    """Records with negative steps are left out with an error; columns of the others stay aligned."""
    message = make_records(0, [0, -1, 2], loss=[0.0, 1.0, 2.0], scale=make_sparse([1, 2], [8.0, 9.0]))
    valid = taken(message)
    assert codes(valid) == ["negative-step"]
    assert "-1" in valid.rejected[0].got
    assert (valid.batch.n, valid.last_seq) == (2, 2)
    assert valid.batch.columns["loss"].v.tolist() == [0.0, 2.0]
    assert valid.batch.columns["scale"].dense(2) == [None, 9.0]


@pytest.mark.parametrize(
    "column",
    [
        b"\0" * 15,
        Sparse(b"\0\0\0", b""),
        Sparse(b"\0\0\0\0", b"\0" * 16),
        Sparse(protocol.little_endian("I", [1, 0]), b"\0" * 16),
        Sparse(protocol.little_endian("I", [0, 2]), b"\0" * 16),
        Sparse(protocol.little_endian("d", [math.nan]), b"\0" * 16),
    ],
    ids=["dense-length", "at-length", "v-length", "unsorted", "beyond-n", "nan-bytes-as-index"],
)
def test_a_bad_column_affects_only_itself(make_records: Make, column: protocol.Column) -> None:
    """A column with wrong lengths or indices is left out with an error; the rest of the batch stays."""
    message = make_records(0, [0, 1], loss=[1.0, 2.0])
    message.cols["odd"] = column
    valid = taken(message)
    assert codes(valid) == ["bad-column"]
    assert "'odd'" in valid.rejected[0].got
    assert list(valid.batch.columns) == ["loss"]


@pytest.mark.parametrize("name", ["", "x" * 17, "a\nb", "nul\0"])
def test_a_name_that_cannot_be_is_left_out(make_records: Make, name: str) -> None:
    """A series needs a name of the allowed length without control characters."""
    valid = taken(make_records(0, [0], loss=[1.0], **{name: [2.0]}))
    assert codes(valid) == ["bad-column"]
    assert valid.rejected[0].expected == "a name of 1 to 16 bytes without control characters"
    assert "bytes" not in valid.rejected[0].got


def test_a_name_of_ten_kilobytes_makes_a_short_error(make_records: Make) -> None:
    """The error gives the size of a huge name and does not repeat it."""
    valid = taken(make_records(0, [0], **{"n" * 10_000: [1.0]}))
    assert len(valid.rejected[0].got) < 200
    assert "10000 bytes" in valid.rejected[0].got


def test_series_beyond_the_limit_are_left_out(make_records: Make) -> None:
    """New names above the limit are rejected in one error; known series continue."""
    message = make_records(0, [0], known=[1.0], **{f"new{i}": [1.0] for i in range(5)})
    valid = taken(message, known={"known", "other"})
    assert codes(valid) == ["too-many-series"]
    assert "at most 4" in valid.rejected[0].expected
    assert valid.rejected[0].got == "3 more, which were left out: 'new2', 'new3', 'new4'"
    assert set(valid.batch.columns) == {"known", "new0", "new1"}


def test_the_loss_is_taken_beyond_the_limit(make_records: Make) -> None:
    """Also if a script has logged many other names before the first backward."""
    message = make_records(0, [0], **{f"new{i}": [1.0] for i in range(5)}, loss=[1.0], grad_norm=[2.0])
    valid = taken(message)
    assert set(valid.batch.columns) == {"new0", "new1", "new2", "new3", "loss", "grad_norm"}


def test_many_faults_make_few_errors(make_records: Make) -> None:
    """A message with a thousand bad columns gets a bounded number of errors."""
    message = make_records(0, [0])
    message.cols.update({f"bad{i}": b"x" for i in range(1000)})
    valid = taken(message)
    assert len(valid.rejected) == MOST_SENTENCES + 1
    assert "992 more" in valid.rejected[-1].got


@pytest.mark.parametrize(
    ("changes", "last_seq"),
    [
        ({"n": 0}, None),
        ({"n": -3}, None),
        ({"n": 1 << 61}, None),
        ({"seq": -1}, None),
        ({"seq": (1 << 63) - 1}, None),
        ({"n": 3}, 2),
        ({"step": b"123"}, 1),
        ({"t": protocol.little_endian("q", [-1, 5])}, 1),
    ],
)
def test_a_batch_that_does_not_fit_is_rejected_whole(
    make_records: Make, changes: dict[str, Any], last_seq: int | None
) -> None:
    """Numbers, steps and times must be consistent; a message with a valid count is acked."""
    message = make_records(0, [0, 1], loss=[1.0, 2.0])
    for name, value in changes.items():
        setattr(message, name, value)
    valid = taken(message)
    assert (codes(valid), valid.batch.n, valid.last_seq) == (["bad-batch"], 0, last_seq)


@given(
    steps=st.lists(st.integers(-3, 50), min_size=1, max_size=30),
    sparse=st.sets(st.integers(0, 29)),
    after=st.integers(-1, 35),
    seq=st.integers(0, 5),
)
def test_kept_records_are_unchanged(steps: list[int], sparse: set[int], after: int, seq: int) -> None:
    """Whatever is trimmed or rejected, each kept record has exactly its own values."""
    n, at = len(steps), sorted(row for row in sparse if row < len(steps))
    message = Records(
        seq=seq,
        n=n,
        step=protocol.little_endian("q", steps),
        t=protocol.little_endian("q", range(n)),
        cols={
            "all": protocol.little_endian("d", range(n)),
            "some": Sparse(protocol.little_endian("I", at), protocol.little_endian("d", at)),
        },
    )
    valid = taken(message, after=after)
    good = [row for row in range(n) if seq + row > after and steps[row] >= 0]
    assert valid.batch.step.tolist() == [steps[row] for row in good]
    assert valid.batch.time_ns.tolist() == good
    if good:
        assert valid.batch.columns["all"].v.tolist() == good
        assert valid.batch.columns["some"].dense(len(good)) == [row if row in at else None for row in good]


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40), st.integers(-2, 6))
def test_no_bytes_break_the_reader(step: bytes, at: bytes, v: bytes, n: int) -> None:
    """Any bytes are read or rejected; nothing is raised."""
    message = Records(seq=0, n=n, step=step, t=step, cols={"a": v, "b": Sparse(at, v)})
    valid = taken(message)
    assert valid.batch.n in (0, n) or {"negative-step", "step-too-large"} & set(codes(valid))


def test_steps_that_go_back_are_reported_and_kept(make_records: Make) -> None:
    """A series that goes back is noticed; two optimizers at one step are ordinary."""
    order = StepOrder()
    assert order.notice(taken(make_records(0, [5], loss=[1.0])).batch) is None
    assert order.notice(taken(make_records(1, [5], **{"loss/D": [1.0]}), after=0).batch) is None
    notice = order.notice(taken(make_records(2, [4, 6], loss=[1.0, 2.0]), after=1).batch)
    assert notice is not None
    assert (notice.scope, notice.code) == ("notice", "step-order")
    assert "step 4" in notice.got
    assert "after step 5" in notice.got


def test_micro_steps_of_one_step_are_ordinary(make_records: Make) -> None:
    """Values of each micro-step repeat at their step; a vital sign has one per step."""
    order = StepOrder()
    assert order.notice(taken(make_records(0, [5, 5, 6, 6], fft=[1.0, 2.0, 3.0, 4.0])).batch) is None
    assert order.notice(taken(make_records(4, [6], fft=[5.0]), after=3).batch) is None
    notice = order.notice(taken(make_records(5, [6, 6], loss=[1.0, 2.0]), after=4).batch)
    assert notice is not None
    assert "step 6 of 'loss' after step 6" in notice.got


def test_the_largest_step_is_before_no_other(make_records: Make) -> None:
    """Its distance to others exceeds int64; the error still names the step that went back."""
    notice = StepOrder().notice(taken(make_records(0, [2**53, 0], loss=[1.0, 2.0])).batch)
    assert notice is not None
    assert "step 0 of 'loss' after step 9007199254740992" in notice.got


def read(hello: Hello, limits: Limits = LIMITS) -> tuple[Hello, list[Refused]]:
    return read_handshake(read_sealed(protocol.encode(hello)), limits)


def refused_hello(hello: Hello) -> Refused:
    _, reported = read(hello)
    assert [refusal.scope for refusal in reported] == ["connection"]
    return reported[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"project": ""}, "project"),
        ({"project": "p" * 10_000}, "project"),
        ({"name": "line\nbreak"}, "name"),
        ({"host": "\x07"}, "host"),
        ({"rank": -1}, "rank"),
        ({"world_size": 0}, "world_size"),
        ({"time_ns": -1}, "time_ns"),
        ({"run": "a/b"}, "run id"),
        ({"run": ".."}, "run id"),
        ({"run": "", "name": "x"}, "run id"),
        ({"tags": ["t"] * 65}, "tags"),
    ],
)
def test_a_hello_that_cannot_be_is_rejected(
    make_hello: Callable[..., Hello], changes: dict[str, Any], word: str
) -> None:
    """The error names the part."""
    run = changes.pop("run", "r1")
    assert word in refused_hello(make_hello(run, **changes)).expected


def nested(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels - 1):
        data = {"a": data}
    return data


def test_a_config_nested_too_deeply_affects_only_itself(make_hello: Callable[..., Hello]) -> None:
    """It is rejected with an error; one within the limit is stored."""
    roomy = Limits()
    hello, reported = read(make_hello("r1", config=nested(474)), roomy)
    assert hello.config is None
    assert "at most 100 levels of lists and maps" in reported[0].expected
    assert read(make_hello("r1", config=nested(100)), roomy)[1] == []


def test_a_config_too_large_affects_only_itself(make_hello: Callable[..., Hello]) -> None:
    """A config that is too large or not JSON is left out; the run continues."""
    for config in ({"text": "x" * 400}, {"raw": b"bytes"}):
        hello, reported = read(make_hello("r1", config=config))
        assert hello.config is None
        assert [(refusal.scope, refusal.code) for refusal in reported] == [("event", "config-size")]


def test_markup_in_a_name_is_kept_and_reported(make_hello: Callable[..., Hello]) -> None:
    """A name with HTML is accepted unchanged, with a notice."""
    hello, reported = read(make_hello("r1", name="<b>x</b>"))
    assert hello.name == "<b>x</b>"
    assert [(refusal.scope, refusal.code) for refusal in reported] == [("notice", "markup-in-name")]


def peak_of(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of ``work``, and its peak memory in bytes."""
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak


def test_every_part_of_a_hello_comes_through(make_hello: Callable[..., Hello]) -> None:
    """Parts that are decoded late equal those that were sent; an absent one has its default."""
    reported = {"config": {"lr": [1.0, math.inf]}, "versions": {"torch": "2"}, "notes": "n", "tags": ["t"]}
    sent = make_hello("r1", **reported, optimizers=[{"name": "Adam"}])
    assert read(sent, Limits()) == (sent, [])


@pytest.mark.parametrize("part", ["config", "optimizers"])
def test_a_part_that_is_large_in_memory_is_not_decoded(make_hello: Callable[..., Hello], part: str) -> None:
    """A megabyte of empty maps would be 70 MB in memory, so its size on the wire counts."""
    frame = protocol.encode(make_hello("r1", **{part: [{}] * 1_000_000}, notes="kept"))
    (hello, reported), peak = peak_of(lambda: read_handshake(read_sealed(frame), Limits()))
    assert (reported[0].code, hello.notes, getattr(hello, part) or None) == ("config-size", "kept", None)
    assert peak < 5 * len(frame)


def test_a_hello_may_not_hide_much_beside_its_parts(make_hello: Callable[..., Hello]) -> None:
    """Tags and names are short; a hello with a megabyte of them is rejected before it is decoded."""
    frame = protocol.encode(make_hello("r1", tags=["tag"] * 250_000))
    with pytest.raises(protocol.ProtocolError, match="65536 bytes without"):
        read_sealed(frame)


def packed(**reported: Any) -> bytes:
    return msgspec.msgpack.encode(reported)


SWELLING: list[Any] = [[]] * 1_000_000


@pytest.mark.parametrize(
    ("frame", "scope", "code"),
    [
        (packed(type="event", no=7, kind="k", t=1, data={"lists": SWELLING}), "event", "event-size"),
        (packed(type="records", seq=0, n=0, step=b"", t=b"", cols={}, more=SWELLING), "records", "bad-batch"),
        (
            packed(type="records", seq=0, n=1, step=b"", t=b"", cols={str(no): b"" for no in range(10_000)}),
            "records",
            "bad-batch",
        ),
        (packed(type="alive", t=1, phase="x" * 1_000_000), "connection", "frame-size"),
    ],
    ids=["event", "records", "columns", "alive"],
)
def test_a_message_that_is_large_in_memory_is_rejected_undecoded(frame: bytes, scope: str, code: str) -> None:
    """Its size on the wire, or its number of columns, is enough to reject it."""
    found, peak = peak_of(lambda: read_message(frame, Limits()))
    assert isinstance(found, TooLarge)
    assert (found.refusal.scope, found.refusal.code) == (scope, code)
    assert peak < 5 * len(frame)


def test_a_name_given_twice_hides_nothing() -> None:
    """The last of two ``data`` counts in msgpack; the first, of a megabyte, is not decoded either."""
    small, large = packed(data={})[1:], packed(data={"lists": SWELLING})[1:]
    frame = b"\x86" + packed(type="event", no=7, kind="k", t=1)[1:] + large + small
    found, peak = peak_of(lambda: read_message(frame, Limits()))
    assert isinstance(found, TooLarge)
    assert peak < 5 * len(frame)


@pytest.mark.parametrize("kind", ["hello", "other", ""])
def test_a_large_message_of_another_type_is_malformed(kind: str) -> None:
    """A second hello, or an unknown type, is never decoded completely."""
    with pytest.raises(protocol.ProtocolError, match="expected records, event, alive or finish"):
        read_message(packed(type=kind, config=SWELLING), Limits())


def test_the_end_of_a_run_counts_whatever_the_size_of_its_error() -> None:
    """A finish with an error of a megabyte ends the run, and says what was left out."""
    frame = protocol.encode(Finish(3, 4, state="failed", records=2, error={"lines": ["x" * 1_000_000]}))
    found = read_message(frame, Limits())
    assert isinstance(found, Finish)
    assert (found.no, found.t, found.state, found.records) == (3, 4, "failed", 2)
    assert "bytes" in found.error["message"]


def test_an_event_of_numbers_may_be_longer_on_the_wire_than_its_limit() -> None:
    """The limit applies to the data as JSON: 1.0 takes nine bytes in msgpack and four in JSON."""
    event = Event(0, "note", 1, data={"ones": [1.0] * 15_000})
    assert len(protocol.encode(event)) > 2 * Limits().event_bytes
    found = read_message(protocol.encode(event), Limits())
    assert isinstance(found, Event)
    assert event_problem(found, Limits()) is None


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (Event(0, "", 0), "bad-event"),
        (Event(0, "note", -1), "bad-event"),
        (Event(0, "note", 0, step=-1), "bad-event"),
        (Event(0, "note", 0, step=2**53 + 1), "bad-event"),
        (Event(0, "note", 0, data={"text": "x" * 300}), "event-size"),
        (Event(0, "note", 0, data={"raw": b"x"}), "event-size"),
    ],
)
def test_an_event_that_cannot_be_kept_is_rejected(event: Event, code: str) -> None:
    """An event needs a kind, a time and plain data of bounded size."""
    fault = event_problem(event, LIMITS)
    assert fault is not None
    assert (fault.scope, fault.code) == ("event", code)


def test_an_event_may_hold_nan() -> None:
    """Non-finite numbers in an event's data are ordinary."""
    assert event_problem(Event(0, "note", 0, data={"psnr": math.nan}), LIMITS) is None


def test_a_finish_needs_a_known_state() -> None:
    """Only finished and failed end a run."""
    assert finish_problem(Finish(0, 0)) is None
    fault = finish_problem(Finish(0, 0, state="exploded"))
    assert fault is not None
    assert "exploded" in fault.got


def test_an_error_too_large_is_shortened() -> None:
    """A failed run keeps the type and the start of a message of any size."""
    finish = Finish(0, 0, state="failed", error={"type": "E", "message": "m" * 9000, "lines": ["x"] * 99})
    error = error_of(finish, LIMITS)
    assert (error["type"], len(error["message"]), error["lines"]) == ("E", 2000, [])
