"""The preflight audit on golden models: each finding, and never a clean bill for what it cannot see."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from tests.hook.captured import KeptOutbox, watched
from tests.hook.test_staging import NoSync
from tocsin.audit import CHECKS
from tocsin.audit.findings import FINDINGS, REMEDIES, Report
from tocsin.audit.graph import LOOK_AT_CLOCK, take_census
from tocsin.audit.graph_checks import check_graph
from tocsin.audit.scalers import faults, skipped_share

Finding = dict[str, Any]
Forward = Callable[[], Any]


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


def _mean_of(model: Callable[[Tensor], Any], dtype: torch.dtype = torch.float32) -> Forward:
    return lambda: model(torch.ones(4, 6, dtype=dtype)).mean()


def _scaled(scaler: torch.amp.GradScaler, model: nn.Module) -> Forward:
    return lambda: scaler.scale(model(torch.ones(4, 6)).mean())


def _train(model: nn.Module, forward: Forward, optimizer: torch.optim.Optimizer, steps: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        forward().backward()
        optimizer.step()


def _audited(
    model: nn.Module, forward: Forward | None = None, *, steps: int = 1, lr: float = 1e-3, **options: Any
) -> KeptOutbox:
    """What is said of a model in training with AdamW on all its parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    with watched(model=model, **options) as (_, outbox):
        _train(model, forward or (lambda: model(torch.ones(4, 6)).mean()), optimizer, steps)
    return outbox


def _found(outbox: KeptOutbox, check: str, stage: str = "first-step") -> list[Finding]:
    (event,) = [event for event in outbox.events("audit") if event["stage"] == stage]
    return [one for one in event["findings"] if one["check"] == check]


def _unseen(outbox: KeptOutbox) -> str:
    return "\n".join(text for event in outbox.events("audit") for text in event["not_auditable"])


def test_a_sound_training_has_no_finding() -> None:
    """One event at the first step, one at the tenth; nothing to say and everything seen."""
    outbox = _audited(_net(), steps=12)
    events = outbox.events("audit")
    assert [(event["stage"], event["step"]) for event in events] == [("first-step", 0), ("step-10", 9)]
    assert [(event["findings"], event["not_auditable"]) for event in events] == [([], [])] * 2
    assert set(events[0]["checks"]) <= set(CHECKS)


def test_every_finding_has_its_remedy() -> None:
    """A script with everything wrong is told of it in a bounded event, as plain data."""
    report = Report("first-step")
    for check in [*CHECKS, *CHECKS * FINDINGS]:
        report.add(check, "info", "x", expected="a", got="b")
    assert {one.remedy for one in report.findings} == set(REMEDIES.values())
    assert len(json.loads(json.dumps(report.data(1.0)))["findings"]) == FINDINGS


@pytest.mark.parametrize("count", [1, 7])
def test_nan_to_num_is_counted_exactly(count: int) -> None:
    """Each call is one node of the graph."""
    model = _net()

    def forward() -> Tensor:
        out: Tensor = model(torch.ones(4, 6))
        for _ in range(count):
            out = torch.nan_to_num(out)
        return out.mean()

    (finding,) = _found(_audited(model, forward, steps=2), "masked-values")
    assert (finding["severity"], finding["got"]) == ("warning", f"{count} times")


def test_clamps_are_counted() -> None:
    """clamp, clamp_min and clamp_max, with numbers and with tensors."""
    model = _net()

    def forward() -> Tensor:
        out = model(torch.ones(4, 6)).clamp(-1, 1).clamp_min(-2).clamp_max(2)
        clamped: Tensor = out.clamp(torch.tensor(-3.0), torch.tensor(3.0))
        return clamped.mean()

    (finding,) = _found(_audited(model, forward), "clamped-values")
    assert (finding["severity"], finding["got"]) == ("info", "4 times")


def test_an_fft_beside_float16_is_told() -> None:
    """A functional one, that no list of modules shows; in float32 alone it is fine."""
    model = _net()

    def forward(half: bool = True) -> Any:
        with torch.autocast("cpu", torch.float16, enabled=half):
            out = model(torch.ones(4, 6))
        return torch.fft.irfft2(torch.fft.rfft2(out.float()), s=(4, 2)).mean()

    (finding,) = _found(_audited(model, forward), "fp16-unsafe")
    assert finding["subject"] == "FFT x 2 in float32 beside float16 operations"
    assert _found(_audited(model, lambda: forward(False)), "fp16-unsafe") == []


def test_powers_in_float16_are_told() -> None:
    """By the dtype that a node computed, whatever autocast says by now."""
    model = _net().half()
    x = torch.ones(4, 6, dtype=torch.float16)
    (finding,) = _found(_audited(model, lambda: model(x).pow(2).mean()), "fp16-unsafe")
    assert finding["subject"] == "Pow x 1 (float16)"


def test_float16_without_a_scaler_is_told() -> None:
    """With one it is not, and one without float16 is needless."""
    model = _net()
    scaler = torch.amp.GradScaler("cpu")

    def half() -> Any:
        with torch.autocast("cpu", torch.float16):
            return model(torch.ones(4, 6)).float().mean()

    assert len(_found(_audited(model, half), "scaler-missing")) == 1
    assert _found(_audited(model, lambda: scaler.scale(half())), "scaler-missing") == []
    outbox = _audited(model, lambda: scaler.scale(model(torch.ones(4, 6)).mean()))
    assert len(_found(outbox, "scaler-needless")) == 1


def test_an_eps_that_is_zero_in_float16() -> None:
    """Adam's 1e-8 with float16 parameters; 1e-4 is fine, and 1e-8 is in float32."""
    for dtype, eps, count in ((torch.float16, 1e-8, 1), (torch.float16, 1e-4, 0), (torch.float32, 1e-8, 0)):
        model = nn.Linear(6, 1).to(dtype)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=eps)
        with watched(model=model) as (_, outbox):
            _train(model, _mean_of(model, dtype), optimizer)
        assert len(_found(outbox, "eps-underflow")) == count, (dtype, eps)


def test_an_eps_in_a_module_of_the_script() -> None:
    """torch's own LayerNorm computes in float32, so its 1e-5 is no finding, nor would 1e-8 be."""

    class RMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eps = 1e-8
            self.weight = nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    model = nn.Sequential(nn.LayerNorm(6, eps=1e-8), RMSNorm(), nn.Linear(6, 1)).half()
    outbox = _audited(model, lambda: model(torch.ones(4, 6, dtype=torch.float16)).mean())
    subjects = [one["subject"] for one in _found(outbox, "eps-underflow")]
    assert subjects == ["eps of opt1 (AdamW)", "1 (RMSNorm.eps)"]


def test_frozen_missing_and_idle_parameters_are_told_apart() -> None:
    """Frozen by a flag, given to no optimizer, reached by no backward."""
    model = nn.ModuleDict({name: nn.Linear(6, 1) for name in ("used", "frozen", "missing", "idle")})
    model["frozen"].requires_grad_(False)
    given = [*model["used"].parameters(), *model["idle"].parameters(), *model["frozen"].parameters()]
    optimizer = torch.optim.SGD(given, lr=0.1)
    with watched(model=model) as (_, outbox):
        _train(
            model,
            lambda: (model["used"](torch.ones(2, 6)) + model["missing"](torch.ones(2, 6))).mean(),
            optimizer,
            10,
        )
    assert [one["subject"] for one in _found(outbox, "frozen-parameters")] == ["frozen.weight, frozen.bias"]
    assert [one["subject"] for one in _found(outbox, "missing-parameters")] == [
        "missing.weight, missing.bias"
    ]
    for stage, severity in (("first-step", "info"), ("step-10", "warning")):
        (idle,) = _found(outbox, "parameters-without-gradient", stage)
        assert (idle["subject"], idle["severity"]) == ("idle.weight, idle.bias", severity)


def test_a_parameter_used_from_the_second_step_on_is_no_warning() -> None:
    """The tenth step looks again."""
    model, step = nn.ModuleDict({"a": nn.Linear(6, 1), "late": nn.Linear(6, 1)}), iter(range(99))

    def forward() -> Tensor:
        out: Tensor = model["a"](torch.ones(2, 6))
        return (out if next(step) < 1 else out + model["late"](torch.ones(2, 6))).mean()

    outbox = _audited(model, forward, steps=10)
    assert len(_found(outbox, "parameters-without-gradient")) == 1
    assert _found(outbox, "parameters-without-gradient", "step-10") == []


def test_tied_weights_and_weights_registered_twice() -> None:
    """One Parameter with two names is usual; two Parameters on one memory are updated twice."""
    tied = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
    tied[1].weight = tied[0].weight
    (finding,) = _found(_audited(tied), "shared-weights")
    assert (finding["severity"], finding["subject"]) == ("info", "0.weight = 1.weight")
    twins = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
    twins[1].weight = nn.Parameter(twins.get_parameter("0.weight").data)
    (finding,) = _found(_audited(twins), "shared-weights")
    assert (finding["severity"], finding["subject"]) == ("warning", "0.weight = 1.weight")


@pytest.mark.parametrize(("lr", "check"), [(0.0, "lr-zero"), (0.5, "lr-range"), (1e-3, "")])
def test_rates_of_zero_and_out_of_range(lr: float, check: str) -> None:
    """0.5 is SGD's rate, not Adam's."""
    outbox = _audited(_net(), lr=lr)
    found = [one["check"] for event in outbox.events("audit") for one in event["findings"]]
    assert found == ([check] if check else [])


def test_a_warm_up_from_zero_is_no_zero_rate() -> None:
    """Unless it is still 0 at the tenth step."""
    for target, count in ((lambda step: step / 100, 0), (lambda step: 0.0, 1)):
        model = _net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, target)
        with watched(model=model) as (_, outbox):
            for _ in range(10):
                _train(model, _mean_of(model), optimizer)
                schedule.step()
        assert _found(outbox, "lr-zero") == []
        assert len(_found(outbox, "lr-zero", "step-10")) == count


def test_a_scaler_that_cannot_keep_its_place() -> None:
    """The living scaler's settings are judged; torch's defaults are fine."""
    model = _net()
    for interval, count in ((1, 1), (2000, 0)):
        scaler = torch.amp.GradScaler("cpu", growth_interval=interval)
        outbox = _audited(model, _scaled(scaler, model))
        assert len(_found(outbox, "scaler-settings")) == count
        del scaler


@pytest.mark.parametrize(("clip", "word"), [(1e9, "never acts"), (1e-9, "acts at each")])
def test_a_clip_that_never_or_always_acts(clip: float, word: str) -> None:
    """After fifty norms, as information: the first of a run are larger than later ones."""
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watched(model=model) as (run, outbox):
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.ones(4, 6)).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        assert run._watch._suspects == ()
    (finding,) = _found(outbox, "clip-threshold", "clip")
    assert word in finding["got"]
    assert finding["severity"] == "info"


def test_a_compiled_model_is_not_auditable() -> None:
    """One CompiledFunctionBackward hides everything: that is said, and nothing is called clean."""
    model = _net()
    compiled = torch.compile(model, backend="aot_eager")
    outbox = _audited(model, lambda: torch.nan_to_num(compiled(torch.ones(4, 6))).mean())
    assert "CompiledFunctionBackward x 1: a compiled model" in _unseen(outbox)
    assert len(_found(outbox, "masked-values")) == 1


def test_checkpoints() -> None:
    """A reentrant one hides its operations, the other one does not."""
    model = _net()
    x = torch.ones(4, 6, requires_grad=True)

    def forward(reentrant: bool) -> Tensor:
        out = checkpoint(lambda x: torch.nan_to_num(model(x)), x, use_reentrant=reentrant)
        assert isinstance(out, Tensor)
        return out.mean()

    hidden, seen = _audited(model, lambda: forward(True)), _audited(model, lambda: forward(False))
    assert "CheckpointFunctionBackward x 1: a reentrant checkpoint" in _unseen(hidden)
    assert (_found(hidden, "masked-values"), _unseen(seen)) == ([], "")
    assert len(_found(seen, "masked-values")) == 1


def test_the_model_is_found_where_none_is_given() -> None:
    """It is the outermost module that owns what the optimizer steps."""
    inner = _net()
    model = nn.Sequential(inner)
    extra = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(inner[0].parameters(), lr=0.1)
    with watched() as (_, outbox):
        _train(model, lambda: model(torch.ones(4, 6)).mean(), optimizer)
    assert [one["subject"] for one in _found(outbox, "missing-parameters")] == ["0.2.weight, 0.2.bias"]
    assert extra.weight.requires_grad


def test_without_a_model_missing_parameters_are_not_auditable() -> None:
    """A parameter that belongs to no module: said, not passed over."""
    alone = nn.Parameter(torch.ones(3))
    with watched() as (_, outbox):
        _train(nn.Identity(), lambda: alone.mean(), torch.optim.SGD([alone], lr=0.1))
    assert "no model is known" in _unseen(outbox)


def test_a_failing_check_is_said_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on."""
    monkeypatch.setattr("tocsin.audit.optimizers.check_rates", lambda *given: 1 / 0)
    outbox = _audited(_net(), lambda: torch.ones(1, requires_grad=True).nan_to_num().sum())
    assert "learning rates: ZeroDivisionError" in _unseen(outbox)
    assert len(_found(outbox, "masked-values")) == 1


def test_weights_are_bit_identical_and_nothing_is_kept() -> None:
    """With and without the audit; and neither model nor graph lives on because of it."""

    def trained(inside: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model = _net()
        if inside:
            _audited(model, steps=12)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            _train(model, lambda: model(torch.ones(4, 6)).mean(), optimizer, 12)
        return [param.detach().clone() for param in model.parameters()]

    assert all(torch.equal(one, two) for one, two in zip(trained(True), trained(False), strict=True))
    model = _net()
    ref, grad_fns = weakref.ref(model), []
    with watched():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 6)).mean()
        grad_fns.append(weakref.ref(loss))
        loss.backward()
        optimizer.step()
        del model, optimizer, loss
        gc.collect()
        assert (ref(), grad_fns[0]()) == (None, None)


def test_a_compiled_step_has_no_more_graph_breaks() -> None:
    """Counted by dynamo, of a model compiled with and without a watch."""
    counts = []
    for watching in (False, True):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = _net()
        compiled = torch.compile(model, backend="aot_eager")
        if watching:
            _audited(model, _mean_of(compiled), steps=3)
        else:
            _train(model, _mean_of(compiled), torch.optim.AdamW(model.parameters()), 3)
        counts.append(sum(torch._dynamo.utils.counters["graph_break"].values()))
    assert counts[0] == counts[1]


def test_the_audit_waits_for_no_device() -> None:
    """Graph, parameters, optimizer and scaler on a device that has no values: nothing asks for one."""
    with FakeTensorMode(), NoSync():  # type: ignore[no-untyped-call]
        model = nn.Linear(
            6, 1, dtype=torch.float16
        )  # fake, but not on CUDA: a build without it makes no graph there
        params = [nn.Parameter(torch.empty(3, device="cuda"), requires_grad=False) for _ in range(2)]
        optimizer = torch.optim.Adam([*model.parameters(), *params], lr=1e-3)
        optimizer.param_groups[0]["lr"] = torch.empty((), device="cuda")
        with watched(model=model) as (run, outbox):
            loss = torch.nan_to_num(model(torch.empty(4, 6, dtype=torch.float16))).pow(2).sum()
            ledger = run._ledger
            ledger.primary = ledger.stepper(optimizer)
            ledger.name_of(ledger.primary)
            ledger.inspect(loss, False)
            for number in (1, 10):
                for call in ledger.appointments.keep(number):
                    call()
    assert [one["subject"] for one in _found(outbox, "fp16-unsafe")] == [
        "Pow x 1 (float16), Sum x 1 (float16)"
    ]
    assert "learning rate of opt1 (Adam): it is a tensor" in _unseen(outbox)
    assert [event["stage"] for event in outbox.events("audit")] == ["first-step", "step-10"]


def _chain(length: int) -> Any:
    out = torch.ones(1, requires_grad=True)
    for _ in range(length):
        out = out * 2
    return out.grad_fn


def test_a_huge_graph_is_walked_in_part_and_that_is_said() -> None:
    """By nodes and by the clock; what was not reached is not called clean."""
    by_nodes = take_census([_chain(50)], nodes=20)
    ticks = iter(range(10_000))
    by_clock = take_census([_chain(3 * LOOK_AT_CLOCK)], limit_s=0.5, clock=lambda: float(next(ticks)))
    assert (by_nodes.nodes, by_clock.nodes) == (20, LOOK_AT_CLOCK)
    for census in (by_nodes, by_clock):
        report = Report("first-step")
        check_graph(census, report)
        assert report.not_auditable == [f"loss graph: {census.cut} were looked at"]
        assert not census.whole


def test_shared_parts_of_a_graph_are_counted_once() -> None:
    """Two losses over one trunk: its clamp is one."""
    trunk = torch.ones(3, requires_grad=True).clamp(0, 1)
    census = take_census([(trunk * 2).sum().grad_fn, (trunk * 3).sum().grad_fn])
    assert (census.count("Clamp"), census.count("Mul"), len(census.reached)) == (1, 2, 1)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({}, None),
        ({"init_scale": 0.0}, "init_scale"),
        ({"init_scale": float("inf")}, "init_scale"),
        ({"init_scale": 2.0**30}, "init_scale"),
        ({"growth_factor": 1.0}, "growth_factor"),
        ({"backoff_factor": 1.0}, "backoff_factor"),
        ({"backoff_factor": 0.99}, "backoff_factor"),
        ({"growth_interval": 0.0}, "growth_interval"),
        ({"growth_interval": 2.0}, "growth_interval"),
        ({"growth_interval": 100.0}, None),
    ],
)
def test_settings_of_a_scaler(change: dict[str, float], setting: str | None) -> None:
    """torch's defaults with one of them changed."""
    usual = {"init_scale": 2.0**16, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000.0}
    found = [name for name, _, _ in faults(**{**usual, **change})]
    assert found == ([setting] if setting else [])


def test_the_share_of_skipped_steps() -> None:
    """Doubled every step and halved on overflow, every second step is lost."""
    assert skipped_share(2.0, 0.5, 1) == 0.5
    assert skipped_share(2.0, 0.5, 2000) == pytest.approx(1 / 2001)
