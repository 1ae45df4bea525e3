"""The hook measures its own overhead, and reduces its sampling."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.captured import watched
from tocsin.capture import loss, optimizer, overhead, scaler
from tocsin.capture.ledger import Ledger
from tocsin.capture.overhead import EVERY, NORM_RAREST, SHARE, next_look, rarer


def _train(steps: int) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()


def _callbacks() -> list[object]:
    return [getattr(owner, name) for owner, names in overhead.CALLBACKS + overhead.OWN for name in names]


def test_a_step_stays_one_record() -> None:
    """Readings are added to the records of steps; none makes a separate record."""
    with watched() as (run, outbox):
        run._reporter.add_reading({"sys/rss_gib": 1.5}, [])
        _train(EVERY + 8)
    assert [item[0] for item in outbox.items] == list(range(EVERY + 8))
    assert len(outbox.series("hook/cost_us")) == len(outbox.series("sys/rss_gib")) == 1


def test_cost_and_queue_are_reported_every_64_steps() -> None:
    """Positive, in microseconds, with the share of the usual step that it was; these steps are very short."""
    with watched(grad_norm=16) as (_, outbox):
        _train(3 * EVERY + 8)
    steps = [step for step, _ in outbox.series("hook/cost_us")]
    assert steps == [EVERY + 2, 2 * EVERY + 2, 3 * EVERY + 2]
    assert all(cost > 0 for _, cost in outbox.series("hook/cost_us"))
    assert all(share > 0 for _, share in outbox.series("hook/share_percent"))
    assert {value for _, value in outbox.series("hook/dropped")} == {0.0}


def test_between_two_measurements_nothing_is_timed() -> None:
    """The callbacks are restored, also if a run ends during a measurement."""
    plain = _callbacks()
    with watched():
        _train(EVERY)
        assert _callbacks() != plain
        assert all(now is not before for now, before in zip(_callbacks(), plain, strict=True))
    assert _callbacks() == plain
    with watched():
        _train(EVERY + 2)
        assert _callbacks() == plain


def test_names_of_callbacks_exist() -> None:
    """What is measured is what the capture modules call."""
    assert {owner for owner, _ in overhead.CALLBACKS} == {loss, optimizer, scaler, Ledger}
    assert all(callable(one) for one in _callbacks())


def test_a_costly_norm_becomes_rarer_and_vital_signs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is in every record all the same."""
    monkeypatch.setattr(overhead, "SHARE", 0.0)
    with watched() as (run, outbox):
        _train(4 * EVERY)
        assert run._ledger.norm_every == NORM_RAREST
    assert [step for step, _ in outbox.series("grad_norm")] == list(range(0, EVERY + 1, 16))
    assert len(outbox.series("loss")) == 4 * EVERY


def test_a_number_that_the_script_gave_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """``grad_norm=8`` was requested, so it is not changed."""
    monkeypatch.setattr(overhead, "SHARE", 0.0)
    with watched(grad_norm=8) as (run, _):
        _train(2 * EVERY)
        assert run._ledger.norm_every == 8


@given(st.integers(1, 256), st.integers(0, 10**9), st.integers(0, 10**9))
def test_norms_stay_within_their_share(every: int, own_ns: int, step_ns: int) -> None:
    """Or they reach the maximum; never more often, and only at steps at which they were before too."""
    chosen = rarer(every, own_ns, step_ns)
    assert chosen >= every
    assert chosen % every == 0
    assert step_ns == 0 or own_ns <= SHARE * chosen * step_ns or chosen >= NORM_RAREST


@given(st.integers(0, 10**9), st.sampled_from([0, 1, 7, 16, 64, 4096]))
def test_the_next_look_is_near(step: int, every: int) -> None:
    """In the future, and at most one interval away."""
    assert step < next_look(step, every) <= step + EVERY


def test_a_fork_leaves_its_parents_measurement() -> None:
    """After a fork within a measured step, the child's callbacks are restored, and its own run can
    measure."""
    plain = _callbacks()
    with watched():
        _train(EVERY)
        assert _callbacks() != plain
        overhead._forget()  # this runs in the child
        assert _callbacks() == plain
        assert overhead._busy == []
