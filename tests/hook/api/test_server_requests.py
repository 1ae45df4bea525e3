"""Requests of the server are carried out with limits, only with opt-in, and reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched
from tocsin.api.server_requests import MOST
from tocsin.protocol import Alert, Request


def _ask(action: str = "checkpoint", alert: str = "a1", **more: Any) -> Request:
    return Request("q1", action, "nonfinite-loss", alert, **more)


def _outcomes(outbox: KeptOutbox) -> list[tuple[str, str]]:
    return [(one["action"], one["outcome"]) for one in outbox.events("action")]


class Loop:
    """A real training of one weight, step by step."""

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1)

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            self.weight.grad = None
            self.weight.pow(2).sum().backward()
            self.optimizer.step()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is rank 0 of two."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job"}.items():
        monkeypatch.setenv(name, value)


def test_one_process_acts_at_its_next_step() -> None:
    """On the training thread, with the request; ``run.requested`` is set until the next step."""
    loop, calls, states = Loop(), list[str](), list[str]()
    with watched(actions="checkpoint") as (run, outbox):
        run.on_request("checkpoint")(lambda request: calls.append(f"{request.reason} {run.current_step}"))
        loop.steps(3)
        run._reporter.queue_message(_ask())
        assert calls == []
        for _ in range(2):
            loop.steps()
            states.append(run.requested)
    assert (calls, states) == (["nonfinite-loss 3"], ["checkpoint", ""])
    assert _outcomes(outbox) == [("checkpoint", "done")]


def test_nothing_is_done_that_nobody_opted_in_to() -> None:
    """The default: no action, which is reported."""
    loop, calls = Loop(), list[Request]()
    with watched() as (run, outbox):
        run.on_request("stop")(calls.append)
        assert run._run_info.wants == []
        loop.steps()
        run._reporter.queue_message(_ask("stop"))
        loop.steps()
        assert run.requested == ""
    assert (calls, _outcomes(outbox)) == ([], [("stop", "dropped")])


def test_once_an_episode_and_so_often_a_run() -> None:
    """The same alert causes one request; of many alerts, only the first ones do."""
    loop, calls = Loop(), list[Request]()
    with watched(actions=["checkpoint"]) as (run, outbox):
        run.on_request("checkpoint")(calls.append)
        for alert in ["a", "a", *"bcdef"]:
            loop.steps()
            run._reporter.queue_message(_ask(alert=alert))
        loop.steps()
    assert [one.alert for one in calls] == ["a", "b", "c"]
    assert MOST == 3
    assert [outcome for _, outcome in _outcomes(outbox)] == ["done", "dropped", "done", "done"] + [
        "dropped"
    ] * 3


def test_a_failure_of_the_script_is_reported_and_harmless() -> None:
    """Training continues; the reason is in the event."""
    loop = Loop()
    with watched(actions={"checkpoint", "stop"}) as (run, outbox):
        run.on_request("checkpoint")(lambda request: 1 / 0)
        run._reporter.queue_message(_ask())
        run._reporter.queue_message(_ask("stop"))
        loop.steps(2)
        assert run.requested == "stop"
    assert _outcomes(outbox) == [("checkpoint", "failed"), ("stop", "requested")]
    assert "ZeroDivisionError" in outbox.events("action")[0]["reason"]
    assert len(outbox.series("loss")) == 2


@pytest.mark.usefixtures("ranks")
def test_several_ranks_act_at_the_step_that_was_confirmed() -> None:
    """They report their step, then that they received the request in time, and act after exactly that
    step."""
    loop, calls = Loop(), list[int]()
    with watched(actions="checkpoint") as (run, outbox):
        run.on_request("checkpoint")(lambda request: calls.append(run._ledger.step))
        for ask in (_ask(), _ask(at_step=6), _ask(at_step=6, confirmed=True)):
            run._reporter.queue_message(ask)
            loop.steps()
        assert calls == []
        loop.steps(10)
    assert calls == [6]
    assert _outcomes(outbox) == [("checkpoint", "received")] * 2 + [("checkpoint", "done")]


@pytest.mark.usefixtures("ranks")
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_rank_that_hears_too_late_drops_it(confirmed: bool) -> None:
    """The step has passed, so acting now would be acting alone."""
    loop, calls = Loop(), list[Request]()
    with watched(actions="checkpoint") as (run, outbox):
        run.on_request("checkpoint")(calls.append)
        loop.steps(5)
        run._reporter.queue_message(_ask(at_step=4, confirmed=confirmed))
        loop.steps(5)
    assert (calls, _outcomes(outbox)) == ([], [("checkpoint", "dropped")])


@pytest.mark.usefixtures("ranks")
def test_a_loop_that_reports_its_steps_acts_at_that_step_too() -> None:
    """``run.step``: compiled, graphed or other loops."""
    calls: list[int] = []
    with watched(actions="stop", patch=False) as (run, _):
        run.on_request("stop")(lambda request: calls.append(run.current_step))
        for step in range(8):
            run.step(loss=1.0)
            if step == 2:
                run._reporter.queue_message(_ask("stop", at_step=5, confirmed=True))
    assert calls == [5]


def test_a_loop_that_reports_its_steps_sees_what_is_requested() -> None:
    """``run.requested`` is set after the ``run.step`` at which it is due, and no longer."""
    states: list[str] = []
    with watched(actions="checkpoint", patch=False) as (run, _):
        run.step(loss=1.0)
        run._reporter.queue_message(_ask())
        run.log(note=1.0)
        for _ in range(2):
            run.step(loss=1.0)
            states.append(run.requested)
    assert states == ["checkpoint", ""]


def test_an_unknown_action_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """With a warning, because nothing raises into a training."""
    with watched(actions="reboot") as (run, _):
        run.on_request("explode")(print)
        assert run._actions.wanted == ()
    assert ["'reboot'" in caplog.text, "'explode'" in caplog.text] == [True, True]


def test_alerts_are_chosen_by_rule_and_severity() -> None:
    """All given conditions must match; a failing function is reported to the server."""
    calls: list[str] = []
    with watched(patch=False) as (run, outbox):

        def fail(alert: Any) -> None:
            raise KeyError("x")

        note = run.on_alert(severity="critical", rules=["loss-spike"])
        note(lambda alert: calls.append(f"{alert.rule} {alert.severity}"))
        assert run.on_alert(fail) is fail
        run.log(a=1.0)
        for rule, severity in (("loss-spike", "critical"), ("loss-spike", "info"), ("plateau", "critical")):
            run._reporter.queue_message(_alert(rule, severity))
        run.log(a=1.0)
    assert calls == ["loss-spike critical"]
    assert [(one["handler"], one["error"]) for one in outbox.events("handler-failed")] == [
        ("fail", "KeyError: 'x'")
    ] * 3


def _alert(rule: str, severity: str) -> Alert:
    return Alert("a", rule, severity, "firing", "")
