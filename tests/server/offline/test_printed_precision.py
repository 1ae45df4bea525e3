"""A log with few decimals raises no alert that the same log in full does not raise, and hides no fault."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.matrix import LONG, represented
from tocsin.importers import open_log
from tocsin_server.core.models import Alert, RunEvent
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.offline import replay
from tocsin_server.offline.replay import Evaluator, Replay, evaluate_log
from tocsin_server.runs.alert_state import RunAlerts

Row = dict[str, float]
Print = Callable[[str, float], str]
RECORDS = 400


def healthy(seed: int) -> list[Row]:
    """A run that converges; sizes, noise and schedule depend on the seed."""
    draw = random.Random(seed)
    start = 10 ** draw.uniform(-2, 1.5)
    floor, slow = start * 10 ** draw.uniform(-3, -0.05), RECORDS * draw.uniform(0.03, 1.0)
    noise, scale, peak = (
        draw.choice([0.001, 0.01, 0.1]),
        10 ** draw.uniform(-4, 1.5),
        10 ** draw.uniform(-5, -1),
    )
    warm_up, rows = draw.choice([0, 20, 60]), []
    for step in range(RECORDS):
        level = floor + (start - floor) * math.exp(-step / slow)
        row = {
            "loss": level * (1 + draw.gauss(0, noise)),
            "norm": scale * (0.3 + level / start) * math.exp(draw.gauss(0, 0.2)),
            "lr": peak
            * min(1, (step + 1) / (warm_up + 1))
            * (0.5 + 0.5 * math.cos(math.pi * step / RECORDS)),
        }
        if step % 25 == 24:
            row["val"] = level * 1.1 * (1 + draw.gauss(0, noise / 4))
        rows.append(row)
    return rows


def kv(step: int, loss: str, norm: str, lr: str) -> str:
    return f"step {step} loss={loss} grad_norm={norm} lr={lr}"


def swin(step: int, loss: str, norm: str, lr: str) -> str:
    return (
        f"[2026-01-02 03:04:05 swin_tiny] (main.py 223): INFO Train: [{step // 100}/6][{step % 100}/100]\t"
        f"eta 0:22:23 lr {lr}\t wd 0.0500\ttime 0.2384 (0.5321)\tloss {loss} ({loss})\t"
        f"grad_norm {norm} ({norm})\tloss_scale 65536.0000 (65536.0000)\tmem 8947MB"
    )


def metric_logger(step: int, loss: str, norm: str, lr: str) -> str:
    at = f"Epoch: [{step // 100}]  [{step % 100:3d}/100]  eta: 0:10:00"
    return f"{at}  lr: {lr}  loss: {loss} ({loss})  grad_norm: {norm} ({norm})  max mem: 5000"


def mmcv(step: int, loss: str, norm: str, lr: str) -> str:
    return (
        "2021-01-01 10:00:00,000 - mmdet - INFO - "
        f"Epoch [{step // 100 + 1}][{step % 100 + 1}/100]\tlr: {lr}, "
        f"eta: 1:00:00, time: 0.5, memory: 5000, loss: {loss}, grad_norm: {norm}"
    )


def megatron(step: int, loss: str, norm: str, lr: str) -> str:
    return (
        f" iteration {step + 1:8d}/  300000 | elapsed time per iteration (ms): 320.0 | learning rate: {lr} | "
        f"lm loss: {loss} | loss scale: 2048.0 | grad norm: {norm} | number of skipped iterations:   0 |"
    )


def fairseq(step: int, loss: str, norm: str, lr: str) -> str:
    return (
        f'2021-01-01 00:00:00 | INFO | train_inner | {{"epoch": 1, "num_updates": "{step + 1}", '
        f'"loss": "{loss}", "lr": "{lr}", "gnorm": "{norm}"}}'
    )


def timm(step: int, loss: str, _: str, lr: str) -> str:
    at = f"Train: {step // 100} [{step % 100:4d}/100 ({step % 100}%)]"
    return f"{at}  Loss: {loss} ({loss})  Time: 3.45s, 37.2/s  (3.45s, 37.2/s)  LR: {lr}  Data: 0.2 (0.2)"


def json_lines(step: int, loss: str, norm: str, lr: str) -> str:
    return f'{{"step": {step}, "loss": {loss}, "grad_norm": {norm}, "lr": {lr}}}'


def trainer(step: int, loss: str, norm: str, lr: str) -> str:
    return f"{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': {lr}, 'step': {step}}}"


def llmc(step: int, loss: str, norm: str, lr: str) -> str:
    return f"s:{step} trl:{loss} lr:{lr} norm:{norm}" + ("\ns:0 tel:11.0" if not step else "")


def pix2pix(step: int, loss: str, norm: str, _: str) -> str:
    at = f"(epoch: 1, iters: {step + 1}, time: 0.622)"
    return f"{at} G_GAN: {loss} G_L1: {norm} D_real: {loss} D_fake: {loss} "


def basicsr(step: int, loss: str, norm: str, lr: str) -> str:
    at = f"2021-01-01 10:00:00,000 INFO: [Demo..][epoch:  0, iter: {step + 1:7,d}, lr:({lr},)]"
    return f"{at} [eta: 1 day, 2:03:04, time (data): 0.500 (0.010)] l_pix: {loss} l_percep: {norm} "


FORMATS: list[Callable[[int, str, str, str], str]] = [
    kv, swin, metric_logger, mmcv, megatron, fairseq, timm, json_lines, trainer, llmc, pix2pix, basicsr,
]  # fmt: skip
WITH_VALIDATION = {
    kv: "validation: step {step} loss={val}",
    json_lines: '{{"step": {step}, "val_loss": {val}}}',
    trainer: "{{'eval_loss': {val}, 'step': {step}}}",
}


def csv_table(rows: list[Row], text: Print) -> str:
    """Return the rows as a table."""
    lines = [
        ",".join(
            [
                str(step),
                *(text(name, row[name]) if name in row else "" for name in ("loss", "norm", "lr", "val")),
            ]
        )
        for step, row in enumerate(rows)
    ]
    return "\n".join(["step,loss,grad_norm,lr,val_loss", *lines]) + "\n"


def lines_of(form: Callable[[int, str, str, str], str], rows: list[Row], text: Print) -> str:
    """Return the rows in a format of lines."""
    lines = []
    for step, row in enumerate(rows):
        lines.append(form(step, *(text(name, row[name]) for name in ("loss", "norm", "lr"))))
        if "val" in row and form in WITH_VALIDATION:
            lines.append(WITH_VALIDATION[form].format(step=step, val=text("val", row["val"])))
    return "\n".join(lines) + "\n"


def fixed(decimals: int) -> Print:
    """Print every column with that many decimals."""
    return lambda _, value: f"{value:.{decimals}f}"


def in_full(_: str, value: float) -> str:
    return repr(value)


def alerts_of(path: Path, text: str) -> list[Alert]:
    """Return the alerts of a log."""
    path.write_text(text)
    return evaluate_log(open_log(path)).alerts


def found(path: Path, text: str) -> dict[tuple[str, str], str]:
    """Return the summaries of the alerts by rule and series."""
    return {(alert.rule, alert.subject): alert.summary for alert in alerts_of(path, text)}


@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=LONG), pytest.param(22, marks=LONG)])
@pytest.mark.parametrize("form", [*FORMATS, None], ids=lambda form: form.__name__ if form else "csv")
def test_few_decimals_raise_no_alert(
    tmp_path: Path, form: Callable[[int, str, str, str], str] | None, seed: int
) -> None:
    """Every column with 0 to 6 decimals: nothing that the log in full does not raise."""
    rows = healthy(seed)

    def write(text: Print) -> str:
        return csv_table(rows, text) if form is None else lines_of(form, rows, text)

    full = found(tmp_path / "a.log", write(in_full))
    for decimals in range(7):
        coarse = found(tmp_path / "a.log", write(fixed(decimals)))
        assert {name: text for name, text in coarse.items() if name not in full} == {}, decimals


@pytest.mark.parametrize("column", represented(["loss", "norm", "lr", "val"]))
def test_one_column_with_few_decimals_raises_no_alert(tmp_path: Path, column: str) -> None:
    """Beside columns in full; two decimals or more show at a 0 that the format is fixed."""
    for seed in (1, 4, 22):
        rows = healthy(seed)
        full = found(tmp_path / "a.log", lines_of(kv, rows, in_full))
        for decimals in range(2, 7):
            mixed: Print = lambda name, value: f"{value:.{decimals}f}" if name == column else repr(value)  # noqa: B023, E731
            coarse = found(tmp_path / "a.log", lines_of(kv, rows, mixed))
            assert {name: text for name, text in coarse.items() if name not in full} == {}, (seed, decimals)


def steady(norm: Callable[[int], str], loss: Callable[[int], str], lr: Callable[[int], str]) -> str:
    """A log of 300 steps."""
    return "".join(kv(step, loss(step), norm(step), lr(step)) + "\n" for step in range(300))


def falling(step: int) -> str:
    """A healthy loss with four decimals."""
    return f"{2 * math.exp(-step / 300) + 0.02 * math.sin(step * 7):.4f}"


def rules(tmp_path: Path, text: str) -> dict[str, str]:
    """Return the severities of the alerts of a log by rule."""
    return {alert.rule: alert.severity.value for alert in alerts_of(tmp_path / "a.log", text)}


def test_noise_of_one_quantum_is_no_spike_and_no_plateau(tmp_path: Path) -> None:
    """A loss of 0.3 and rarely 0.4, which falls by less than a quantum; norms of 0 and 1, rarely 9."""
    draw = random.Random(5)
    rows = []
    for step in range(2500):
        loss = 0.34 - 0.08 * step / 2500 + draw.gauss(0, 0.012)
        norm = 0.8 * math.exp(draw.gauss(0, 0.6)) * (6 if step % 500 in (399, 400, 401) else 1)
        rows.append({"loss": loss, "norm": norm, "lr": 0.1})
    assert rules(tmp_path, lines_of(kv, rows, in_full)) == {}
    assert rules(tmp_path, lines_of(kv, rows, fixed(1))) == {}
    assert rules(tmp_path, lines_of(kv, rows, fixed(0))) == {}


def test_a_spike_and_an_explosion_are_found_with_one_decimal(tmp_path: Path) -> None:
    """Both are many quanta high. Norms that are printed as 0 before them are so again afterwards."""
    rows, small = healthy(4), healthy(4)
    for row in rows:
        row["norm"] += 1.0
    for row in (*rows[200:206], *small[200:206]):
        row["loss"], row["norm"] = row["loss"] + 30, row["norm"] + 2000
    full = rules(tmp_path, lines_of(kv, rows, in_full))
    assert full.keys() == {"loss-spike", "grad-explosion"}
    assert rules(tmp_path, lines_of(kv, rows, fixed(1))) == full
    assert rules(tmp_path, lines_of(kv, small, fixed(1))).keys() == {"loss-spike"}


@pytest.mark.parametrize("decimals", range(7))
def test_nan_is_found_with_any_precision(tmp_path: Path, decimals: int) -> None:
    """NaN has no decimals."""
    rows = healthy(1)
    rows[300:] = [{**row, "loss": math.nan, "norm": math.nan} for row in rows[300:]]
    assert rules(tmp_path, lines_of(kv, rows, fixed(decimals)))["nonfinite-loss"] == "critical"


def test_a_norm_of_0_is_found_in_a_column_in_full(tmp_path: Path) -> None:
    """It prints 1e-9 elsewhere, so 0.0 is 0."""
    norms = [1.25, 0.31, 1e-9, 2.5]
    text = steady(lambda step: repr(norms[step % 4] if step < 150 else 0.0), falling, lambda step: "0.001")
    assert rules(tmp_path, text) == {"norm-after-zero": "warning"}


def test_a_norm_that_falls_to_0_at_once_is_found(tmp_path: Path) -> None:
    """From 1.2345 to 0.0000; one that fades to it is not."""
    at_once = steady(
        lambda step: f"{1.2345 + step % 7 / 10 if step < 150 else 0:.4f}", falling, lambda step: "0.001"
    )
    fading = steady(lambda step: f"{1.2345 * 0.9**step:.4f}", falling, lambda step: "0.001")
    assert rules(tmp_path, at_once) == {"norm-after-zero": "warning"}
    assert rules(tmp_path, fading) == {}


def test_a_norm_that_is_always_0_0_is_found_beside_numbers_in_full(tmp_path: Path) -> None:
    """``'grad_norm': 0.0`` of the Hugging Face Trainer, which prints learning rates in full."""
    rows = [trainer(step, falling(step), "0.0", repr(5e-5 * (1 - step / 300))) for step in range(300)]
    assert rules(tmp_path, "\n".join(rows)) == {"norm-after-zero": "warning"}


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Rules that rest while norms are above 0 know the last one when a 0 is printed, also from a snapshot."""
    text = steady(
        lambda step: f"{1.2345 + step % 7 / 10 if step < 150 else 0:.4f}", falling, lambda _: "0.001"
    )
    whole = alerts_of(tmp_path / "a.log", text)
    monkeypatch.setattr(replay, "BATCH_RECORDS", size)
    assert [(one.rule, one.fired_step) for one in whole] == [("norm-after-zero", 169)]
    assert alerts_of(tmp_path / "a.log", text) == whole
    engine, fired = Engine(RunContext(run_id="r")), []
    for received in Replay("r").take(open_log(tmp_path / "a.log").items()):
        engine = Engine.restore(RunContext(run_id="r"), engine.save())
        found = engine.observe_event(received) if isinstance(received, RunEvent) else engine.observe(received)
        fired += [(one.rule, one.step) for one in found]
    assert fired[:1] == [("norm-after-zero", 169)]


def test_a_finding_is_withdrawn_when_the_column_turns_out_to_be_rounded(tmp_path: Path) -> None:
    """A norm of 0.0 beside numbers in full counts as 0, until 0.1 shows that it has one decimal."""
    norms = ["0.0" if step < 100 else "0.1" for step in range(300)]
    path = tmp_path / "a.log"
    path.write_text(
        "".join(f"step {step} loss {2 - step / 300!r} grad_norm {norm}\n" for step, norm in enumerate(norms))
    )
    run = Evaluator(RunContext(run_id="r"))
    tracker, transitions = RunAlerts("r"), []
    for received in Replay("r").take(open_log(path).items()):
        for finding in run.take(received):
            transitions += tracker.apply(finding, finding.time_ns)
    assert [
        (one.alert.rule, one.alert.state.value, one.alert.is_withdrawn) for one in transitions if one.first
    ] == [
        ("norm-after-zero", "firing", False),
        ("norm-after-zero", "resolved", True),
    ]
    assert transitions[-1].alert.summary == (
        "Withdrawn: the log prints grad_norm in steps of 0.1, so zeros and equal values may be rounded"
    )
    assert evaluate_log(open_log(path)).alerts == []


def test_loss_and_norm_that_are_0_from_the_start_are_critical(tmp_path: Path) -> None:
    """With four decimals; without a norm, the loss may also be tiny, which is a warning."""
    both = steady(lambda step: "0.0000", lambda step: "0.0000", lambda step: "0.0010")
    alone = "".join(f"step {step} loss=0.0000 lr=0.0010\n" for step in range(300))
    assert rules(tmp_path, both) == {"loss-saturated": "critical", "zero-grad-norm": "critical"}
    assert rules(tmp_path, alone) == {"loss-saturated": "warning"}
    tiny = steady(lambda step: f"{0.3 + step % 7 / 10:.4f}", lambda step: "0.0000", lambda step: "0.0010")
    assert rules(tmp_path, tiny) == {}


def test_a_learning_rate_that_falls_to_0_at_once_is_found(tmp_path: Path) -> None:
    """From 0.0100 to 0.0000, which no schedule prints; 0.000 in place of 0.001 may be rounding."""

    def norm(step: int) -> str:
        return f"{1 + step % 7 / 10:.4f}"

    at_once = steady(norm, falling, lambda step: "0.0100" if step < 100 else "0.0000")
    rounded = steady(norm, falling, lambda step: "0.001" if step < 100 else "0.000")
    exact = steady(norm, falling, lambda step: "0.001" if step < 100 else "0.0")
    assert rules(tmp_path, at_once) == {"zero-lr": "critical"}
    assert rules(tmp_path, rounded) == {}
    assert rules(tmp_path, exact) == {"zero-lr": "critical"}
