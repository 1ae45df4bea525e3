"""No number makes a rule raise, however large or small it is and however far apart the records are."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.server.detect.engine.test_batches import Record, batch_of
from tocsin_server.core.models import RunEvent, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

SIGNALS = ("loss", "grad_norm", "lr", "scale", "skipped", "found_inf", "loss/kl", "val/loss", "val/acc")
EXTREMES = (
    *(0.0, 5e-324, 1e-310, 1e-300, 1e-3, 1.0, 65536.0, 1e300, 1.7e308, -1e-310, -1.0, -1.7e308),
    *(math.inf, -math.inf, math.nan),
)
Stretch = tuple[dict[str, float], int, float, float, int]
"""Values, number of records, noise, growth per record, and distance in steps."""

stretches = st.tuples(
    st.dictionaries(st.sampled_from(SIGNALS), st.sampled_from(EXTREMES), min_size=1),
    st.sampled_from([1, 5, 60, 150]),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([1.0, 1.0, 1.05, 4.0, 1e10, 1e-10]),
    st.sampled_from([1, 0, 10, 5000, 1 << 40]),
)


def records_of(run: list[Stretch]) -> Iterator[list[Record]]:
    """Yield the records of each stretch, which are up to 2^53 steps from the first one."""
    draw, step = random.Random(0), 0
    for values, length, noise, growth, apart in run:
        records = []
        for _ in range(length):
            values = {name: value * growth * draw.gauss(1, noise) for name, value in values.items()}
            records.append((step, values))
            step = min(step + apart, 1 << 53)
        yield records


SPARSE: list[Stretch] = [({"scale": scale, "loss": 1.0}, 3, 0.0, 1.0, 5000) for scale in (65536.0, 32768.0)]
"""The scale backs off between two records that are further apart than the rule's window."""
MANY: list[Stretch] = [({"skipped": 1.7e308, "scale": 1.0}, 150, 0.0, 1.0, 1)]
"""Counts of skipped steps whose sum no state can hold."""
TINY: list[Stretch] = [({"loss": 1e-310, "grad_norm": 1e-310, "scale": 1e300}, 150, 0.05, 1.0, 1)]
HUGE: list[Stretch] = [({"loss": 1.7e308, "grad_norm": 1.7e308, "scale": 5e-324}, 60, 0.0, 1.0, 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(stretches, min_size=1, max_size=5), st.sampled_from([1, 50]))
@example(SPARSE, 1)
@example(MANY, 50)
@example(TINY + HUGE + TINY, 50)
def test_no_value_makes_a_rule_raise(run: list[Stretch], size: int) -> None:
    """Nor does it keep the state of the rules from being saved."""
    engine, seq = Engine(RunContext(run_id="r1")), 0
    for records in records_of(run):
        for start in range(0, len(records), size):
            engine.observe(batch_of(Writer("r1", 1, 1, 0), records[start : start + size], seq + start))
        seq += len(records)
        engine = Engine.restore(engine.context, engine.save())


@pytest.mark.parametrize("steps", [1e308, [math.nan, -1, 7], [1 << 80, 7], "7", None])
def test_no_declared_step_keeps_the_state_from_being_saved(steps: object) -> None:
    """What a script declares may be anything; only steps from 0 to 2^53 count."""
    engine = Engine(RunContext(run_id="r1"))
    engine.observe_event(
        RunEvent(Writer("r1", 1, 1, 0), 1, 0, "expect", 0, 1, {"what": "lr", "steps": steps})
    )
    kept = Engine.restore(engine.context, engine.save()).context.expected
    assert kept == ({"lr": (7,)} if isinstance(steps, list) else {})
