"""A rule process reports exactly what the server would: every batch, event and finding passes unchanged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.server.detect.engine.test_batches import DIVERGED, Segment, batches_of, runs
from tocsin_server.core.models import Column, RecordBatch, RunEvent, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.runs.evaluators import Attempt
from tocsin_server.runs.rule_messages import (
    LENGTH,
    Answer,
    Message,
    answer_in,
    asking,
    checkpoints_in,
    encoded,
    findings_in,
    informing,
    item_in,
    message_in,
    opening,
)
from tocsin_server.runs.rule_worker import Runs

CONTEXT = RunContext(run_id="r_1", project="p", scalers=({"enabled": True},))
WHO = Writer("r_1", 10, 1, 0)


def asked(worker: Runs, message: Message) -> Answer:
    """Return the answer of a rule process, with both messages as they pass through the socket."""
    return answer_in(encoded(worker.answer(message_in(encoded(message)[LENGTH:])))[LENGTH:])


@settings(max_examples=15, deadline=None)
@given(runs, st.integers(1, 60), st.integers(0, 40))
@example(DIVERGED, 7, 3)
@example(DIVERGED, 7, 0)
def test_findings_are_those_of_the_server(segments: list[Segment], size: int, moved: int) -> None:
    """Text, types and order are identical, also if the run moves there on its way, and so is the state."""
    engine, here, worker = Engine(CONTEXT), Engine(CONTEXT), Runs()
    for no, batch in enumerate(batches_of(segments, size)):
        expected = engine.observe(batch)
        if no < moved:
            found: Any = here.observe(batch)
        else:
            if no == moved:
                asked(worker, opening(1, 7, CONTEXT, here.save()))
            answer = asked(worker, asking(2, 7, batch, save=True))
            assert answer.crash == ""
            assert moved or answer.state == engine.save()
            found = findings_in(answer)
        assert repr(list(found)) == repr(expected)


def test_every_bit_of_a_batch_arrives() -> None:
    """NaN payloads, infinities, -0.0, subnormals and rows without a value."""
    odd = np.array([0x7FF8000000000ABC, 0xFFF0000000000000, 1 << 63, 1], np.uint64).view(np.float64)
    columns = {"loss": Column(odd), "lr": Column(np.array([math.nan]), np.array([2], np.uint32))}
    batch = RecordBatch(WHO, 5, 40, 4, np.arange(4), np.arange(4) + (1 << 62), columns)
    message = message_in(encoded(asking(1, 7, batch, save=False))[LENGTH:])
    got: Any = item_in(message, "r_1")  # type: ignore[arg-type]
    assert (got.writer, got.arrival, got.seq, got.n) == (WHO, 5, 40, 4)
    assert got.time_ns.tolist() == batch.time_ns.tolist()
    assert got.columns["loss"].v.tobytes() == odd.tobytes()
    assert got.columns["lr"].at.tolist() == [2]


def test_the_server_learns_of_checkpoints_once() -> None:
    """An answer has the checkpoints only if an event changed them."""
    worker = Runs()
    asked(worker, opening(1, 7, CONTEXT, None))
    saved = RunEvent(WHO, 1, 0, "checkpoint", 5, 3, {"path": "/a.pt"})
    noted = RunEvent(WHO, 2, 1, "note", 6, 3, {"text": "nan", "value": math.nan})
    found = [checkpoints_in(asked(worker, asking(2, 7, one, save=False))) for one in (saved, noted)]
    assert [None if one is None else [each.path for each in one] for one in found] == [["/a.pt"], None]


def test_a_new_attempt_keeps_what_the_rules_know() -> None:
    """The optimizers of the handshake replace those before; checkpoints and plan stay."""
    worker = Runs()
    asked(worker, opening(1, 7, CONTEXT, None))
    asked(worker, asking(2, 7, RunEvent(WHO, 1, 0, "checkpoint", 5, 3, {"path": "/a.pt"}), save=False))
    begun = Attempt(2, None, {"versions": {"torch": "2"}, "optimizers": [{"name": "SGD"}]})
    asked(worker, informing(3, 7, begun))
    context = worker.engine(7).context
    assert (context.world_size, context.optimizers, len(context.checkpoints)) == (2, ({"name": "SGD"},), 1)


def test_a_state_that_cannot_be_read_is_reported() -> None:
    """The server then replays the records, as without a rule process."""
    answer = asked(Runs(), opening(1, 7, CONTEXT, b"\xc0"))
    assert "rule state" in answer.unreadable
