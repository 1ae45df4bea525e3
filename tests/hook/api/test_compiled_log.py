"""The compiled ``run.log`` does exactly what the Python function does."""

from __future__ import annotations

import gc
import inspect
import logging
import math
import struct
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hook.captured import watch
from tests.hook.packing import compiled
from tests.hook.reading import Reader, steps_of, values_of
from tests.matrix import ALL
from tocsin.api.run import Run
from tocsin.api.step_count import StepCount
from tocsin.spool import log as spool_log
from tocsin.spool.log import SIZE
from tocsin.transport.outbox import Outbox

pytestmark = pytest.mark.skipif(compiled() is None, reason="no C compiler, or no stable ABI")

Call = Callable[[Run], None]
LITTLE = {"blocks": 4, "block_bytes": 1024}
FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
USUAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, 0.5]) | FLOATS
NUMBERS = [3, True, 2**70, np.float32(0.1), np.float64(0.1), torch.tensor(0.5), torch.zeros(2), np.zeros(1)]
ODD = st.sampled_from([None, "x", b"x", {"a": 0.5}, [1.0], object(), *NUMBERS])
VALUES = USUAL | USUAL | ODD
STEPS = st.integers(0, 12) | st.sampled_from([-1, 2**53, 2**53 + 1, 2**70, True, 7.0, 7.5, "7", None])
SITES: list[Callable[[Run, Any, Any, Any], None]] = [
    lambda run, step, a, b: run.log(step=step, loss=a, lr=b),
    lambda run, step, a, b: run.log(loss=a, step=step, lr=b),
    lambda run, step, a, b: run.log(lr=a, loss=b, step=step),
    lambda run, step, a, b: run.log(step=step, only=a),
    lambda run, step, a, b: run.log(loss=a, lr=b),
    lambda run, step, a, b: run.log({"loss": a}, step=step),
    lambda run, step, a, b: run.log("loss", a, step),
    lambda run, step, a, b: run.log(step=step, self=a, given=b),
    lambda run, step, a, b: run.log(step=step),
    lambda run, step, a, b: run.log(**{"step": step, "a/b": a, "é": b}),
    lambda run, step, a, b: run.log(*[a, b], step=step),
    lambda run, step, a, b: run.log(),
]
"""Calls in the source, whose names are the same tuple each time."""
BETWEEN: list[Call] = [
    lambda run: run._reporter.reserve_names(("loss",)),
    lambda run: run._reporter.add_to_next_record({"hook/queued": 1.0}),
    lambda run: run._reporter.add_event_later("note", {}),
    lambda run: run.step(0.5, step_time=1.0),
]
CALLS = st.builds(
    lambda site, *given: lambda run: site(run, *given), st.sampled_from(SITES), STEPS, VALUES, VALUES
)


@contextmanager
def started(module: Any, **options: Any) -> Iterator[tuple[Run, Outbox]]:
    """Yield a run whose outbox and ``log`` are compiled, or in Python if ``module`` is None."""
    with patch.object(spool_log, "compiled", module):
        outbox = Outbox(**LITTLE)
    run = watch(outbox, **options)
    assert inspect.isbuiltin(run.log) == (module is not None)
    try:
        yield run, outbox
    finally:
        run.finish()


def recorded(module: Any, calls: list[Call], **options: Any) -> Any:
    """Return what these calls leave: records bit by bit, counts, internal errors and warnings."""
    with started(module, **options) as (run, outbox):
        for call in calls:
            call(run)
        rows = [
            (message.seq + row, step, values_of(message, row))
            for message in Reader(outbox).records()
            for row, step in enumerate(steps_of(message))
        ]
        counts = (outbox.records, outbox.steps, outbox.last_step, outbox.dropped, run.current_step)
        return rows, counts, run._reporter.errors, run._reporter._warned


@settings(max_examples=80 if ALL else 30, deadline=None)
@given(calls=st.lists(CALLS | CALLS | CALLS | st.sampled_from(BETWEEN), max_size=40), patched=st.booleans())
def test_any_calls_leave_the_same_records(calls: list[Call], patched: bool) -> None:
    """Names, steps, values of any type, further work between two calls, and a log that fills up."""
    logging.disable(logging.WARNING)
    try:
        assert recorded(compiled(), calls, patch=patched) == recorded(None, calls, patch=patched)
    finally:
        logging.disable(logging.NOTSET)


def test_the_usual_call_runs_no_python_function_but_the_count() -> None:
    """Otherwise the compiled function would gain nothing.

    The first calls, and one after another thread of the hook has reserved names, are not usual.
    """
    frames: list[str] = []
    usual = 0
    with started(compiled(), patch=False) as (run, _):
        run.on_log = None  # an earlier test of this process may have mirrored a tracker
        for step in range(12):
            frames.clear()
            sys.setprofile(lambda frame, event, _: frames.extend([frame.f_code.co_name] * (event == "call")))
            run.log(step=step, loss=0.5, lr=0.1)
            sys.setprofile(None)
            usual += frames == ["count_from"]
    assert usual >= 6


@pytest.mark.parametrize("module", [None, "compiled"])
def test_an_error_inside_is_reported_and_not_raised(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same internal error in both."""
    monkeypatch.setattr(StepCount, "count_from", lambda self, step, known: 1 // 0)
    with started(module and compiled(), patch=False) as (run, outbox):
        for step in range(3):
            run.log(step=step, loss=0.5)
        assert (run._reporter.errors, outbox.records) == (3, 0)


@pytest.mark.parametrize("module", [None, "compiled"])
def test_an_interrupt_reaches_the_script(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt is not an error of the hook."""
    with started(module and compiled(), patch=False) as (run, _):
        run.log(step=0, loss=0.5)
    monkeypatch.setattr(StepCount, "count_from", _interrupted)
    with started(module and compiled(), patch=False) as (run, _):
        for step in range(2):
            with pytest.raises(KeyboardInterrupt):
                run.log(step=step, loss=0.5)


def _interrupted(self: StepCount, step: int, known: Any) -> None:
    raise KeyboardInterrupt


def test_mirrored_trackers_get_every_call() -> None:
    """What is logged goes to ``on_log`` as soon as it is set."""
    seen: list[tuple[int, list[str], list[Any]]] = []
    with started(compiled(), patch=False) as (run, _):
        for step in range(3):
            run.log(step=step, loss=0.5)
            run.on_log = lambda step, names, row: seen.append((step, list(names), list(row)))
    assert seen == [(1, ["loss"], [0.5]), (2, ["loss"], [0.5])]


def test_it_looks_like_the_function() -> None:
    """``inspect.signature`` has the parameters that ``help`` and notebooks show."""
    with started(compiled(), patch=False) as (run, _):
        parameters = inspect.signature(run.log).parameters
    expected = dict(inspect.signature(Run.log).parameters)
    del expected["self"]
    assert [(one.name, one.kind) for one in parameters.values()] == [
        (one.name, one.kind) for one in expected.values()
    ]


def test_a_run_is_freed() -> None:
    """Run, logger, log and outbox refer to each other; the collector finds that."""
    with started(compiled(), patch=False) as (run, outbox):
        run.log(step=0, loss=0.5)
    left: list[Any] = [weakref.ref(run), weakref.ref(outbox)]
    del run, outbox
    gc.collect()
    assert [one() for one in left] == [None, None]


class Moving:
    """A value during whose conversion something happens to the outbox."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile

    def __float__(self) -> float:
        self.meanwhile()
        return 2.0


def test_a_record_is_packed_where_the_log_is_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log moves to other memory, or is discarded, while a value is converted."""
    monkeypatch.setattr(spool_log, "compiled", compiled())
    outbox = Outbox()
    outbox.put((0, 0, ("a", "b"), 1.0, 1.0))
    outbox.put((1, 0, ("a", "b"), 1.0, Moving(lambda: outbox.move(bytearray(SIZE)))))
    (records,) = Reader(outbox).records()
    assert records.cols == {"a": struct.pack("<2d", 1.0, 1.0), "b": struct.pack("<2d", 1.0, 2.0)}
    outbox.put((2, 0, ("a", "b"), 1.0, Moving(outbox.discard)))
    assert len(outbox) == 0


@pytest.mark.parametrize("at", range(len(SITES)))
def test_every_reference_is_returned(at: int) -> None:
    """Of the values, the step and None, after a thousand calls of each kind, also in a full log."""
    value, odd, step = float("0.25"), Moving(lambda: None), int("1000")
    counts = []
    with started(compiled(), patch=False) as (run, outbox):
        for calls in (1, 500):  # the first one imports modules
            for _ in range(calls):
                SITES[at](run, step, value, value)
                SITES[at](run, step, value, odd)
                outbox.put((step, 0, ("odd",), odd))
            counts.append([sys.getrefcount(one) for one in (value, odd, step, None)])
    assert max(now - was for was, now in zip(*counts, strict=True)) < 100, counts
    assert min(now - was for was, now in zip(*counts, strict=True)) > -100, counts
