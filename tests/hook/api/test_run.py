"""What a script reports with its Run arrives under the right names and steps."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tocsin
from tests.hook.captured import KeptOutbox, KeptSender, watch, watched
from tests.hook.ingest_server import IngestServer, wait_until
from tests.hook.loops.single import plain
from tests.hook.truth import Truth
from tocsin.api.run import MOST_NAMES


def _one_step(net: torch.nn.Module, optimizer: torch.optim.Optimizer, middle: object = None) -> None:
    optimizer.zero_grad()
    net(torch.ones(2)).sum().backward()
    if callable(middle):
        middle()
    optimizer.step()


@pytest.fixture
def net() -> torch.nn.Linear:
    return torch.nn.Linear(2, 1)


@pytest.fixture
def optimizer(net: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1)


def test_log_belongs_to_the_coming_step_or_to_the_newest(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Between backward and step a value belongs to the next step, otherwise to the newest."""
    with watched() as (_, outbox):
        for k in range(2):
            _one_step(net, optimizer, middle=lambda k=k: tocsin.log(before=float(k)))
            tocsin.log({"after": float(k)})
        tocsin.log(chosen=1.0, step=77)
    assert outbox.series("before") == outbox.series("after") == [(0, 0.0), (1, 1.0)]
    assert outbox.series("chosen") == [(77, 1.0)]


def test_what_is_logged_in_the_forward_pass_belongs_to_the_step_it_leads_to(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Values logged once per step before the backward are not assigned to the previous step."""
    with watched() as (run, outbox):
        run.evaluate(psnr=1.0)
        for k in range(3):
            tocsin.log(forward=float(k))
            run.check(losses={"l1": torch.tensor(float(k))})
            _one_step(net, optimizer, middle=lambda k=k: tocsin.log(between=float(k)))
            tocsin.log(after=float(k))
        run.evaluate(psnr=2.0)
    expected = [(0, 0.0), (1, 1.0), (2, 2.0)]
    for name in ("forward", "loss/l1", "between", "after"):
        assert outbox.series(name) == expected, name
    assert outbox.series("val/psnr") == [(0, 1.0), (2, 2.0)]


def test_what_micro_steps_say_belongs_to_the_step_they_are_gathered_for(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """With gradient accumulation, this applies to each forward pass, and to the event of a bad batch."""
    bad = torch.tensor([math.nan, 1.0])
    with watched() as (run, outbox):
        for k in range(4):
            for micro in range(3):
                run.check(batch=bad if (k, micro) == (2, 0) else torch.ones(2), losses={"l1": float(k)})
                net(torch.ones(2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert outbox.series("loss/l1") == [(k, float(k)) for k in range(4) for _ in range(3)]
    assert [event["step"] for event in outbox.events("nonfinite-input")] == [2]


def test_log_lays_mappings_out_flat() -> None:
    """Nested mappings become names with slashes; empty ones and values that are not numbers are dropped."""
    with watched() as (run, outbox):
        run.log({"a": {"b": 1, "c": {"d": math.inf}}, "e": 2.0, "none": {}})
    assert outbox.records == [{"step": 0, "a/b": 1.0, "a/c/d": math.inf, "e": 2.0}]


def test_arguments_of_wandb_are_no_metrics() -> None:
    """``commit`` and ``sync`` after a mapping."""
    with watched() as (run, outbox):
        run.log({"a": 1.0}, step=3, commit=False, sync=None)
        run.log({"commit": 2.0}, step=4)
    assert outbox.records == [{"step": 3, "a": 1.0}, {"step": 4, "commit": 2.0}]


def test_log_takes_numbers_of_every_kind() -> None:
    """Floats, ints, bools, NumPy and tensors are read immediately; non-finite values are kept."""
    with watched() as (run, outbox):
        tensor = torch.tensor(2.5)
        run.log(a=1, b=True, c=np.float32(0.5), d=np.array([4.0]), e=tensor, f=math.nan, g=-math.inf)
        tensor.zero_()
    (record,) = outbox.records
    assert [record[name] for name in "abcdeg"] == [1.0, 1.0, 0.5, 4.0, 2.5, -math.inf]
    assert math.isnan(record["f"])


def test_log_leaves_out_what_is_no_number(caplog: pytest.LogCaptureFixture) -> None:
    """Each name is reported once with its type; other values of the call are kept."""
    with watched(patch=False) as (run, outbox):
        for _ in range(3):
            run.log(
                good=1.0, text="0.5", vector=torch.ones(3), nothing=None, huge=10**400, z=torch.tensor(1j)
            )
    assert [dict(record) for record in outbox.records] == [{"step": k, "good": 1.0} for k in range(3)]
    warnings = [text.partition(", expected")[0] for text in caplog.messages if "left out" in text]
    assert warnings == [
        'tocsin: run.log: "text" is a str',
        'tocsin: run.log: "vector" is a Tensor of shape (3,)',
        'tocsin: run.log: "nothing" is None',
        'tocsin: run.log: "huge" is an int of more than 64 bits',
        'tocsin: run.log: "z" is a complex Tensor of shape ()',
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.log({"a": 1.0}, 7),
        lambda run: run.log("a", 1.0, 7),
        lambda run: run.log("a", 1.0, step=7),
        lambda run: run.log({"a": 1.0}, None, step=7),
        lambda run: run.log(None, 7, a=1.0),
        lambda run: tocsin.log({"a": 1.0}, 7),
        lambda run: tocsin.log("a", 1.0, 7),
        lambda run: run.step({"a": 1.0}, 7),
        lambda run: run.step(None, 7, a=1.0),
    ],
)
def test_values_may_be_given_as_other_trackers_take_them(call: Callable[[Any], None]) -> None:
    """A mapping, or a name and its value; the step follows or is a keyword."""
    with watched() as (run, outbox):
        call(run)
    assert outbox.records == [{"step": 7, "a": 1.0}]


def test_arguments_in_no_known_order_raise_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """They are dropped with a warning; keyword arguments are kept."""
    with watched() as (run, outbox):
        run.log(0.5)
        run.log([1, 2], 3, 4, a=1.0)
        run.evaluate({"psnr": 30.0}, 5)
        run.step(0.25, 6)
        run.event("saved", {"path": "a.pt"}, 7)
    assert outbox.records == [{"step": 3, "a": 1.0}, {"step": 5, "val/psnr": 30.0}, {"step": 6, "loss": 0.25}]
    assert outbox.events("saved") == [{"step": 7, "path": "a.pt"}]
    assert "its first argument is a float, expected a mapping, or a name and a number" in caplog.text


def test_log_counts_by_itself_where_nothing_else_does() -> None:
    """In a loop without an optimizer, a repeated name starts the next step, and others join it."""
    with watched(patch=False) as (run, outbox):
        for k in range(50):
            run.log(loss=float(k))
            run.log({"lr": 0.1})
            if k % 10 == 9:
                run.evaluate(psnr=30.0)
        state = run.state_dict()
    assert [step for step, _ in outbox.series("loss")] == list(range(50))
    assert [step for step, _ in outbox.series("lr")] == list(range(50))
    assert [step for step, _ in outbox.series("val/psnr")] == [9, 19, 29, 39, 49]
    assert state == {"step": 50}


def test_log_counts_on_from_the_highest_explicit_step() -> None:
    """As in ``wandb.log``: other names join that step, a repeated name starts the next one."""
    with watched(patch=False) as (run, outbox):
        run.log(loss=0.0)
        run.log(loss=1.0, step=10)
        run.log(lr=0.1)
        run.log(loss=2.0)
        run.log(loss=3.0, step=4)
        run.log(loss=4.0)
        state = run.state_dict()
    assert [step for step, _ in outbox.series("loss")] == [0, 10, 11, 4, 12]
    assert outbox.series("lr") == [(10, 0.1)]
    assert state == {"step": 13}


def test_log_counts_no_more_once_something_else_does() -> None:
    """From the first ``run.step`` on, values belong to its steps, as they do with an optimizer."""
    with watched(start_step=3, patch=False) as (run, outbox):
        run.log(a=1.0)
        run.log(a=2.0)
        run.step(loss=1.0)
        run.log(a=3.0)
        run.log(a=4.0)
    assert outbox.series("a") == [(3, 1.0), (4, 2.0), (3, 3.0), (3, 4.0)]


def test_log_before_watch_warns_once() -> None:
    """In a separate process: nothing raises, and one line says what to do."""
    script = "import tocsin\nfor _ in range(3): tocsin.log(loss=1.0)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.count("tocsin.log was called before tocsin.watch") == 1
    quiet = {**os.environ, "TOCSIN_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=quiet, check=True
    )
    assert done.stderr == ""


def test_a_name_that_capture_reports_is_moved_aside() -> None:
    """A script that logs its own ``loss`` does not double the captured one."""
    with watched() as (run, outbox):
        run.log(loss=0.5)
        plain(Truth())
        run.log(loss=0.5)
    assert len(outbox.series("loss")) == 41
    assert outbox.series("logged/loss") == [(39, 0.5)]


def test_explicit_steps_replace_the_automatic_ones() -> None:
    """``run.step`` counts itself, and from its first call on no step is recorded twice."""
    with watched() as (run, outbox):
        run.step(loss=1.0)
        plain(Truth())
        run.step(loss=torch.tensor(2.0), grad_norm=3)
        run.step(loss=0.5, step=100)
    assert outbox.series("loss") == [(0, 1.0), (1, 2.0), (100, 0.5)]
    assert outbox.series("grad_norm") == [(1, 3.0)]
    assert [step for step, _ in outbox.series("step_time")] == [1, 100]


def test_a_numbered_first_step_is_not_recorded_twice() -> None:
    """The captured one is step 0, and so is the one that ``run.step`` names."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched() as (run, outbox):
        for index in range(3):
            loss = model(torch.ones(2)).sum()
            loss.backward()
            optimizer.step()
            run.step(loss=loss.detach(), step=index)
    assert [step for step, _ in outbox.series("loss")] == [0, 1, 2]


def test_an_explicit_step_after_a_captured_one_is_the_same_step() -> None:
    """``optimizer.step(); run.step(loss=...)`` counts from 0, and step 0 is not recorded twice."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with watched() as (run, outbox):
        for index in range(3):
            loss = model(torch.ones(2)).sum()
            loss.backward()
            optimizer.step()
            run.step(loss=loss, extra=index)
            losses.append((index, loss.item()))
    assert outbox.series("loss") == losses
    assert outbox.series("extra") == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_explicit_steps_go_on_after_a_captured_warm_up() -> None:
    """Several captured steps before the first explicit one are separate steps."""
    with watched() as (run, outbox):
        plain(Truth())
        run.step(loss=2.5)
    assert outbox.series("loss")[-2:] == [(39, pytest.approx(outbox.series("loss")[-2][1])), (40, 2.5)]


def test_explicit_steps_need_no_torch() -> None:
    """With ``patch=False`` nothing is captured, but explicit steps are recorded."""
    with watched(patch=False, start_step=5) as (run, outbox):
        plain(Truth())
        run.step(loss=np.float64(1.5))
    assert outbox.series("loss") == [(5, 1.5)]
    assert outbox.events("attached") == [{"step": None, "signals": {}}]


def test_evaluation_metrics_have_a_direction_and_a_unit() -> None:
    """``val/<name>`` is a series; its direction and unit are sent once."""
    with watched() as (run, outbox):
        for value in (30.0, 31.0):
            run.evaluate(psnr=value, goal="max", unit="dB", step=10)
        run.evaluate({"loss": 0.5}, goal={"loss": "min"}, step=10)
    assert outbox.series("val/psnr") == [(10, 30.0), (10, 31.0)]
    assert [(one["name"], one["goal"], one["unit"]) for one in outbox.events("metric")] == [
        ("val/psnr", "max", "dB"),
        ("val/loss", "min", None),
    ]


def test_time_in_a_phase_is_in_no_step_time(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation between two steps does not make the second one slow."""
    with watched() as (run, outbox):
        _one_step(net, optimizer)
        with run.phase("eval"), run.phase("inner"):
            began = run._reporter.now_ns()
            while run._reporter.now_ns() - began < 50_000_000:
                pass
        _one_step(net, optimizer)
        assert run._reporter.paused_ns >= 50_000_000
    (_, seconds), *_ = outbox.series("step_time")
    whole = (outbox.items[-1][1] - outbox.items[0][1]) * 1e-9
    assert seconds == pytest.approx(whole - run._reporter.paused_ns * 1e-9, abs=1e-6)
    assert [(one["name"], one["state"]) for one in outbox.events("phase")] == [
        ("eval", "begin"),
        ("inner", "begin"),
        ("inner", "end"),
        ("eval", "end"),
    ]


def test_events_carry_plain_data_and_their_step() -> None:
    """expect, checkpoint and any other event have data that msgpack can encode."""
    with watched() as (run, outbox):
        plain(Truth())
        run.expect("lr-restart", steps=range(3))
        run.event("checkpoint", path=os.path, size=torch.tensor(3))
    assert outbox.events("expect") == [{"step": 39, "what": "lr-restart", "steps": [0, 1, 2]}]
    assert outbox.events("checkpoint")[0]["size"] == 3


def test_check_reports_terms_once_and_reads_weights(net: torch.nn.Linear) -> None:
    """The server gets the names of loss terms; a module with a NaN parameter is reported."""
    with watched() as (run, outbox):
        run.check(losses={"l1": 1.0, "fft": 2.0}, weights=net)
        run.check(losses={"l1": 1.0})
        with torch.no_grad():
            net.weight[0, 0] = math.nan
        run.check(weights=net)
    assert [reported["names"] for reported in outbox.events("loss-components")] == [["l1", "fft"]]
    assert [value for _, value in outbox.series("nonfinite/weights")] == [0.0, 1.0]


def test_check_names_what_is_not_finite() -> None:
    """A NaN in a nested batch is 1 in ``nonfinite/batch``; a loss term is a separate series."""
    good, bad = torch.ones(3), torch.tensor([1.0, math.nan])
    with watched(patch=False) as (run, outbox):
        run.check(batch={"x": [good, bad], "y": torch.ones(2, dtype=torch.int64)})
        run.check(batch=[good, np.ones(3), "name", torch.empty(0)], losses={"fft": math.inf})
        run.check(batch=(good, np.array([math.inf])))
        run.check(batch=torch.tensor([-math.inf, 1.0], dtype=torch.float16))
    assert [value for _, value in outbox.series("nonfinite/batch")] == [1.0, 0.0, 1.0, 1.0]
    assert outbox.series("loss/fft") == [(1, math.inf)]


def test_the_batch_of_a_bad_step_is_reported() -> None:
    """The batch's name is sent for its bad step only."""
    with watched() as (run, outbox):
        for k, loss in enumerate((1.0, math.nan, 2.0)):
            run.batch(f"shard-{k}")
            run.step(loss=loss)
    assert outbox.events("batch") == [{"step": 1, "id": "shard-1"}]


def test_alerts_reach_their_handlers_at_a_step(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers run at the next record, by rule and severity; a failing one does not affect others."""
    received: list[str] = []
    with watched() as (run, outbox):
        run.on_alert(lambda alert: received.append(f"any {alert.rule}"))
        run.on_alert("scaler-collapse")(lambda alert: received.append("collapse"))
        run.on_alert(severity="critical")(lambda alert: 1 / 0)
        assert run._run_info.wants == ["alerts"]
        run.log(a=1.0)
        for rule in ("scaler-collapse", "loss-spike"):
            run._reporter.queue_message(SimpleNamespace(rule=rule, severity="critical"))
        assert received == []
        run.log(a=1.0)
    assert received == ["any scaler-collapse", "collapse", "any loss-spike"]
    assert len(outbox.items) == 2
    assert "an alert handler raised" in caplog.text


def test_handlers_run_after_a_step_and_not_where_the_script_logs(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """A value logged between backward and step, or in the forward pass, calls no handler."""
    received: list[str] = []
    with watched() as (run, outbox):
        run.on_alert(lambda alert: received.append(f"{alert.rule} after {len(outbox.series('lr'))} steps"))
        _one_step(net, optimizer)
        for moment in ("forward", "backward"):
            run._reporter.queue_message(SimpleNamespace(rule=moment, severity="critical"))
            tocsin.log(forward=1.0)
            _one_step(net, optimizer, middle=lambda: tocsin.log(middle=len(received)))
    assert received == ["forward after 2 steps", "backward after 3 steps"]
    assert outbox.series("middle") == [(1, 0.0), (2, 1.0)]


def test_handlers_run_where_an_attempt_is_abandoned_but_not_within_the_next_backward(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """A loop that skips every bad step by ``zero_grad`` still gets the alert."""
    received: list[str] = []
    with watched() as (run, outbox):
        run.on_alert(lambda alert: received.append(f"after {len(outbox.series('stepped'))}"))
        _one_step(net, optimizer)
        for by_hand in (True, False):
            run._reporter.queue_message(SimpleNamespace(rule="loss-spike", severity="critical"))
            net(torch.ones(2)).sum().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            if by_hand:
                for param in net.parameters():
                    param.grad = None
            else:
                optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
    assert received == ["after 3", "after 4"]


def test_delivery_starts_with_the_first_record() -> None:
    """``watch`` alone starts no thread; the first record does, once."""
    sender = KeptSender()
    run = watch(KeptOutbox(), sender)
    assert sender.started == 0
    run.log(a=1.0)
    run.log(a=2.0)
    run.finish()
    assert sender.started == 1


def test_everything_is_safe_after_the_end() -> None:
    """After finish every method does nothing, and finish itself happens once."""
    outbox, sender = KeptOutbox(), KeptSender()
    run = watch(outbox, sender)
    run.finish()
    events = len(outbox.reported)
    run.log(a=1.0)
    run.step(loss=1.0)
    run.evaluate(a=1.0, goal="max")
    run.event("x")
    run.expect("y")
    run.check(batch=torch.ones(2), losses={"a": 1.0})
    run.batch("z")
    with run.phase("eval"):
        plain(Truth())
    run.finish()
    tocsin.log(a=1.0)
    assert (outbox.items, len(outbox.reported), sender.closed) == ([], events, [("finished", None)])


def test_a_run_continues_its_count(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """``start_step``, ``load_state_dict`` and a restored optimizer each continue the count of steps."""
    with watched(start_step=100) as (run, outbox):
        _one_step(net, optimizer)
        assert run.state_dict() == {"step": 101}
    with watched() as (run, second):
        run.load_state_dict({"step": 101})
        _one_step(net, optimizer)
    assert [step for box in (outbox, second) for step, _ in box.series("loss")] == [100, 101]
    adam = torch.optim.Adam(net.parameters())
    for _ in range(3):
        _one_step(net, adam)
    with watched() as (_, third):
        _one_step(net, adam)
    assert [step for step, _ in third.series("loss")] == [3]
    assert third.events("start-step") == [{"step": 3, "approximate": True}]


@pytest.mark.parametrize("state", [3, {}, {"step": "x"}])
def test_what_is_no_state_leaves_the_step_count(state: Any, caplog: pytest.LogCaptureFixture) -> None:
    with watched(start_step=100) as (run, _):
        run.load_state_dict(state)
        assert run.state_dict() == {"step": 100}
    assert "expected what run.state_dict() returned" in caplog.text


def test_the_newest_run_gets_what_is_logged() -> None:
    """``tocsin.log`` goes to the newest run that has not ended."""
    first, second = KeptOutbox(), KeptOutbox()
    one = watch(first)
    two = watch(second)
    tocsin.log(a=1.0)
    two.finish()
    tocsin.log(a=2.0)
    one.finish()
    assert (second.series("a"), first.series("a")) == ([(0, 1.0)], [(0, 2.0)])


@pytest.mark.parametrize("step", [7, 7.0, np.int64(7), torch.tensor(7), "7"])
def test_a_step_may_be_any_whole_number(step: Any) -> None:
    """NumPy, tensor or float: it is converted to an ``int`` for the sender."""
    with watched() as (run, outbox):
        run.log(a=1.0, step=step)
        run.log(b=1, step=step)
        run.step(loss=1.0, step=step)
        run.event("checkpoint", step=step)
    assert [(type(item[0]), item[0]) for item in outbox.items] == [(int, 7)] * 3
    assert outbox.events("checkpoint") == [{"step": 7}]


@pytest.mark.parametrize("step", ["abc", math.nan, 2.0**70, object(), 2**53 + 1, -(2**53) - 1, 2**70, 10**50])
def test_what_is_no_step_is_left_out(step: Any, caplog: pytest.LogCaptureFixture) -> None:
    """With one warning, and no internal error."""
    with watched() as (run, outbox):
        run.log(a=1.0, step=step)
        run.step(loss=1.0, step=step)
        run.event("checkpoint", step=step)
        run.log(a=2.0)
    assert [item[3:] for item in outbox.items] == [(2.0,)]
    assert caplog.text.count("expected a whole number up to 2**53") == 1


@pytest.mark.parametrize(
    ("steps", "reported"),
    [
        (None, []),
        (5, [5]),
        (np.int64(5), [5]),
        (torch.tensor(5), [5]),
        (np.arange(3), [0, 1, 2]),
        ([1e3, math.nan, "x"], [1000]),
        (iter(range(2)), [0, 1]),
        ((1 // k for k in (1, 0)), []),
    ],
)
def test_expected_steps_are_any_numbers(steps: Any, reported: list[int]) -> None:
    """A schedule's milestones in NumPy or torch; nothing raises into training."""
    with watched() as (run, outbox):
        run.expect("lr-restart", steps=steps)
    assert outbox.events("expect") == [{"step": 0, "what": "lr-restart", "steps": reported}]


def test_text_that_cannot_be_encoded_reaches_the_server(server: IngestServer, spool: Path) -> None:
    """File names that are not UTF-8 contain unpaired surrogates, which are removed from names of any kind."""
    run = tocsin.watch("p\udcff", name="n\udcff", url=server.url, spool_dir=spool, patch=False)
    with run.phase("eval\udcff"):
        run.log({"a\udcff": 1.0, "deep": {"b\udcff": 2}})
        run.event("saved\udcff", path="c\udcff")
        wait_until(lambda: server.writers and "eval?" in [one.phase for one in server.only.alive])
    run.finish()
    assert server.only.columns == {"a?": [1.0], "deep/b?": [2.0]}
    assert "saved?" in [event.kind for event in server.only.events]
    assert server.only.finish is not None


def test_no_registration_of_a_handler_raises() -> None:
    """``rules=None`` is every rule, a list is its rules."""
    received: list[str] = []
    with watched() as (run, _):
        run.on_alert(rules=None)(lambda alert: received.append("any"))
        run.on_alert(rules=5)(lambda alert: received.append("any"))
        run.on_alert(["loss-spike"])(lambda alert: received.append("spike"))
        run.on_alert(rules={"stalled"})(lambda alert: received.append("stalled"))
        run._reporter.queue_message(SimpleNamespace(rule="loss-spike", severity="critical"))
        run.log(a=1.0)
        run.log(a=1.0)
    assert received == ["any", "any", "spike"]


class Raising:
    def __float__(self) -> float:
        raise RuntimeError("no number of mine")


def test_a_value_that_raises_loses_no_other_value_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    with watched() as (run, outbox):
        run.log({"a": 1.0, "bad": Raising(), "b": 2}, step=3)
        (record,) = outbox.records
        assert (record["a"], record["b"]) == (1.0, 2.0)
    assert '"bad" is a Raising, expected a number' in caplog.text


@pytest.mark.parametrize(
    "many", [{f"n{k}": 1.0 for k in range(3000)}, {"n": dict.fromkeys(range(3000), 1.0)}]
)
def test_the_names_of_a_call_are_bounded(many: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The server would reject a record of more, and all that is sent with it."""
    with watched() as (run, outbox):
        run.log(many, step=3)
        (record,) = outbox.records
        assert len(record) == 1 + MOST_NAMES
    assert "3,000 names" in caplog.text
