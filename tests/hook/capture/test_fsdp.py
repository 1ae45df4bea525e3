"""Training on several ranks: DDP, ZeRO and both FSDPs report true values, and the hook issues no collectives.

Two processes on the CPU, and one on each CUDA device if there are any, run every style of ``two_ranks.py``
once; each test checks what they printed.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import fork_server
from tocsin.capture import fsdp

SCRIPT = Path(__file__).with_name("two_ranks.py")
STEPS = 4
STYLES = [
    *("ddp", "ddp-clip", "ddp-no-sync", "ddp-scaler", "zero", "zero-clip"),
    *("fsdp1", "fsdp1-clip", "fsdp1-original", "fsdp1-original-clip", "fsdp1-bfloat16-clip"),
    *("fsdp1-sharded-scaler", "fsdp2", "fsdp2-clip", "fsdp2-bfloat16-clip", "fsdp2-scaler"),
]
LOCAL = {"fsdp1", "fsdp1-original", "fsdp2"}

Reports = list[dict[str, Any]]


CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and there is none here")


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, CUDA])])
def ranks(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Return what each rank printed: style -> report."""
    place = tmp_path_factory.mktemp("ranks") / "store"
    path = os.pathsep.join([str(SCRIPT.parents[3]), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    on_cpu = request.param == "cpu"
    world = 2 if on_cpu else torch.cuda.device_count()
    processes, outputs = [], [place.with_name(f"rank {k}") for k in range(world)]
    for k, output in enumerate(outputs):
        command = [str(SCRIPT), str(place), str(k), str(world), "cpu" if on_cpu else f"cuda:{k}"]
        with output.open("wb") as file:
            processes.append(fork_server.train(*command, env=environ, stdout=file.fileno(), stderr=2))
    assert [process.wait(170) for process in processes] == [0] * world
    return [json.loads(output.read_text("utf-8").splitlines()[-1]) for output in outputs]


@pytest.fixture(params=STYLES)
def reports(ranks: Any, request: pytest.FixtureRequest) -> Reports:
    """Return the ranks' reports of one style."""
    return [rank[request.param] for rank in ranks]


def test_every_style_is_looked_at(ranks: Any) -> None:
    """Every style that ran is tested here."""
    assert sorted(ranks[0]) == sorted(STYLES)


def test_the_hook_issues_no_collective(reports: Reports) -> None:
    """The process group counts the same number with the watch as without."""
    for report in reports:
        plain, watched = report["collectives"]
        assert plain == watched
        assert plain > 0 or len(reports) == 1


def test_weights_are_bit_identical(reports: Reports) -> None:
    """Each rank ends with the bits of a training without the watch."""
    for report in reports:
        assert report["weights"][0] == report["weights"][1]


def test_each_rank_reports_its_own_losses(reports: Reports) -> None:
    """One record per step: the loss is this rank's sum over micro-steps, with their number."""
    for report in reports:
        assert [record["step"] for record in report["records"]] == list(range(STEPS))
        for record, losses in zip(report["records"], report["losses"], strict=True):
            assert record["loss"] == pytest.approx(math.fsum(losses), rel=1e-5)
            assert record["loss_n"] == len(losses)
            assert not [name for name in record if "opt2" in name]


def test_norms_are_those_of_a_twin_on_one_process(ranks: Any, request: Any) -> None:
    """The norm of the clip is the whole model's on every rank, local parts add up to it, and the source says
    which."""
    for style in STYLES:
        reports = [rank[style] for rank in ranks]
        source = "clip" if "clip" in style or "scaler" in style or "sync" in style else "own"
        if len(ranks) > 1 or style not in LOCAL:  # with one rank, its part is the whole
            sources = [["local" if style in LOCAL else source]] * len(ranks)
            assert [one["sources"] for one in reports] == sources, style
        for step, true in enumerate(reports[0]["norms"]):
            reported = [one["records"][step].get("grad_norm") for one in reports]
            _agree(style, source, step, reported, true)


def _agree(style: str, source: str, step: int, reported: list[float | None], true: float) -> None:
    if source == "own" and step:
        assert set(reported) == {None}, style  # sampled, and the next sample is at step 16
        return
    assert None not in reported, (style, step)
    values = [value for value in reported if value is not None]
    if style in LOCAL:
        values = [math.hypot(*values)]
    for value in values:
        if math.isinf(true):
            assert not math.isfinite(value), (style, step)
        else:
            assert value == pytest.approx(true, rel=0.03 if "bfloat16" in style else 1e-4), (style, step)


@pytest.mark.parametrize("style", [style for style in STYLES if "scaler" in style])
def test_an_overflow_on_one_rank_is_a_skip_on_all(ranks: Any, style: str) -> None:
    """The last rank overflows at step 2: all ranks skip it, back off, and report that."""
    for rank in ranks:
        records = rank[style]["records"]
        assert [record["skipped"] for record in records] == [0.0, 0.0, 1.0, 0.0], style
        assert [record["stepped"] for record in records] == [1.0, 1.0, 0.0, 1.0]
        assert [record["scale"] for record in records] == [1024.0, 1024.0, 1024.0, 512.0]


def test_without_fsdp_nothing_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the script never imported FSDP, the parameters are not examined."""
    monkeypatch.setattr(fsdp, "fsdp1", lambda: None)
    assert not fsdp.is_part([object()])


def test_sharded_and_whole_parameters_are_distinguished() -> None:
    """A flat parameter with everything, and original parameters in their own shapes, are not parts."""
    pytest.importorskip("torch.distributed.fsdp")

    def flattened(*shape: int, whole: int | None = None) -> Any:
        param = torch.nn.Parameter(torch.zeros(shape))
        param._fsdp_flattened = True  # type: ignore[attr-defined]
        if whole is not None:
            param._unpadded_unsharded_size = torch.Size([whole])  # type: ignore[attr-defined]
        return param

    assert fsdp.is_part([flattened(3, whole=6)])
    assert not fsdp.is_part([flattened(6, whole=6)])
    assert fsdp.is_part([flattened(3), flattened(0)])
    assert not fsdp.is_part([flattened(2, 3), flattened(3)])
    assert not fsdp.is_part([torch.nn.Parameter(torch.zeros(3))])
