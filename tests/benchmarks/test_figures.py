"""The figures of benchmarks and their comparison with a baseline."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.figures import (
    TARGETS,
    Figure,
    Machine,
    Target,
    change,
    figure,
    parse_figures,
    regressions,
    table,
)

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def written_names() -> Iterator[str]:
    """Yield a regular expression for the name of each figure that a benchmark writes."""
    for file in BENCHMARKS.glob("bench_*.py"):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "figure":
                yield name_written(call.args[0])


def name_written(argument: ast.expr) -> str:
    """Return the regular expression of a name; of one that is only a variable, one that never matches."""
    if isinstance(argument, ast.Constant):
        return re.escape(str(argument.value))
    parts = argument.values if isinstance(argument, ast.JoinedStr) else []
    return (
        "".join(re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".*" for one in parts)
        or "(?!)"
    )


def beside(value: float, peer: float | None = 10.0, *, higher: bool = False) -> Figure:
    """Return a figure that a peer was measured beside."""
    return Figure("f", value, "us", higher, peer="peer", peer_value=peer, benchmark="bench_f.py")


def test_a_benchmark_writes_its_figures_to_the_named_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also NaN and Inf; the last figure of a name counts."""
    monkeypatch.setenv("TOCSIN_BENCH_FIGURES", str(tmp_path / "figures"))
    figure("f", 1.0, "us")
    figure("f", math.inf, "us", peer=("trackio", math.nan))
    found = parse_figures((tmp_path / "figures").read_text().splitlines())
    assert found["f"].value == math.inf
    assert found["f"].peer_value is not None
    assert math.isnan(found["f"].peer_value)


def test_without_the_variable_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A benchmark that is run by hand prints only."""
    monkeypatch.delenv("TOCSIN_BENCH_FIGURES", raising=False)
    monkeypatch.chdir(tmp_path)
    figure("f", 1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("now", "before", "regressed"),
    [
        (beside(6.1), beside(5.0), True),
        (beside(5.9), beside(5.0), False),
        (beside(12.0, 20.0), beside(6.0, 10.0), False),  # a slower machine, the same ratio
        (beside(4.1, higher=True), beside(5.0, higher=True), True),
        (beside(4.3, higher=True), beside(5.0, higher=True), False),
        (beside(50.0, higher=True), beside(5.0, higher=True), False),
        (beside(0.2), beside(-3.0), False),  # both below the noise
        (beside(2.0), beside(-3.0), True),
        (Figure("f", 99.0, "us"), Figure("f", 1.0, "us"), False),  # absolute times are never compared
        (Figure("f", 1.3, ratio=True), Figure("f", 1.0, ratio=True), True),
    ],
)
def test_a_ratio_that_is_worse_by_more_than_20_percent_is_a_regression(
    now: Figure, before: Figure, regressed: bool
) -> None:
    """In the direction that is worse for the figure."""
    assert change(now, before).regressed is regressed


@pytest.mark.parametrize("now", [None, beside(math.nan), beside(5.0, None), beside(5.0, 0.0)])
def test_a_ratio_that_is_not_measured_any_more_is_a_regression(now: Figure | None) -> None:
    """Otherwise a peer that no longer installs would turn the check off."""
    assert change(now, beside(5.0)).regressed


@pytest.mark.parametrize("before", [None, beside(math.nan), beside(5.0, None), Figure("f", 5.0)])
def test_a_figure_without_a_ratio_in_the_baseline_is_not_compared(before: Figure | None) -> None:
    """A new figure, and one that was NaN."""
    assert change(beside(500.0), before) == change(None, before)
    assert not change(beside(500.0), before).regressed


def test_only_figures_of_benchmarks_that_ran_are_compared() -> None:
    """`BENCHES=` selects some; the figures of the others are not missing."""
    baseline = {"f": beside(5.0)}
    assert regressions({}, baseline, ["bench_other.py"]) == {}
    assert list(regressions({}, baseline, ["bench_f.py"])) == ["f"]


def test_targets_are_met_in_their_direction_and_never_by_nan() -> None:
    """For the value, and for the ratio to the peer."""
    assert Target(5.0).met(beside(5.0))
    assert not Target(5.0, at_least=True).met(beside(4.9))
    assert Target(0.5, of_peer=True).met(beside(5.0))
    assert not Target(0.5, of_peer=True).met(beside(5.0, None))
    assert not Target(5.0).met(beside(math.nan))


def test_the_table_has_every_target_and_every_figure() -> None:
    """What was not measured says so."""
    name = "log, 4 floats, median"
    text = table({name: Figure(name, 2.0, "us"), "new": beside(7.0)}, {"new": beside(5.0)})
    assert all(f"| {each} " in text for each in TARGETS)
    assert "MISSED" in text
    assert "+40 % worse" in text
    assert "not measured" in text


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_a_benchmark_that_writes_its_figure(name: str) -> None:
    """A target that nothing measures is never missed."""
    assert any(re.fullmatch(written, name) for written in written_names())


def test_a_figure_without_a_benchmark_is_found() -> None:
    """The names of the test above are not so general that they match anything."""
    assert not any(re.fullmatch(written, "no such figure") for written in written_names())


def test_the_machine_class_ignores_patch_versions() -> None:
    """It is the name of a file."""
    one = Machine("AMD EPYC 7763 64-Core Processor", 4, "3.11.7", "2.13.0+cpu")
    assert one.kind == "amd-epyc-7763-64-core-processor-4-cpus-python-3.11-torch-2.13"
    assert Machine(one.cpu, 4, "3.11.9", "2.13.1").kind == one.kind
    assert Machine(one.cpu, 4, "3.11.9", "2.13.1", "NVIDIA H100").kind == f"nvidia-h100-{one.kind}"
