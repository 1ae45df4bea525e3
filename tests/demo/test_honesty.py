"""No training of the demo or of a scenario fakes its problem: overflows happen by themselves."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("server/tocsin_server/demo/trainings", "tests/scenarios", "tests/browser/trainings")
SPOILT = {"scripted", "spiked", "talkative", "faults", "test_bad_shard", "test_one_layer"}
"""Scenarios that deliberately inject a fault, because they test the diagnosis rather than its origin."""
TRAININGS = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.stem not in SPOILT
)
SCALER_PARTS = {"_scale", "_growth_tracker", "_init_scale"}
NON_FINITE = {"inf", "infty", "infinity", "nan", "-inf", "-nan", "+inf"}
READERS = {
    "open",
    "load",
    "loads",
    "read_text",
    "read_bytes",
    "loadtxt",
    "genfromtxt",
    "read_csv",
    "fromfile",
}
LONGEST_LITERAL = 16
"""Maximum numbers in one literal; more would look like a recording."""


def word(node: ast.AST) -> str:
    """Return the last word of a name, an attribute or a text constant; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return node.value.strip() if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def touches_the_scale(node: ast.AST) -> bool:
    """Return whether it reads or writes ``scaler._scale``, also by ``setattr``."""
    return word(node) in SCALER_PARTS


def is_non_finite(node: ast.AST) -> bool:
    """Return whether it is ``float("inf")``, ``torch.inf``, ``math.nan`` or ``1e999``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return not math.isfinite(node.value)
    return word(node).lower() in NON_FINITE


def divides_by_zero(node: ast.AST) -> bool:
    """Return whether it is ``x / 0``."""
    divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return divides and isinstance(node.right, ast.Constant) and node.right.value == 0  # type: ignore[attr-defined]


def sets_the_scale(node: ast.AST) -> bool:
    """Return whether it sets the scale: ``scaler.update(1.0)``, or loading a state."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of_scaler = "scaler" in ast.unparse(node.func.value).lower()
    given = bool(node.args or node.keywords)
    return of_scaler and (node.func.attr == "load_state_dict" or (node.func.attr == "update" and given))


def replays(node: ast.AST) -> bool:
    """Return whether it reads a file, or contains a long list of numbers."""
    if isinstance(node, ast.Call):  # a training that is resumed loads its own weights
        return word(node.func) in READERS and ast.unparse(node.func) != "torch.load"
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return sum(isinstance(item, ast.Constant) for item in node.elts) > LONGEST_LITERAL
    return False


CHECKS = (touches_the_scale, is_non_finite, divides_by_zero, sets_the_scale, replays)


def tricks(source: str) -> Iterator[str]:
    """Yield what in ``source`` causes problems other than by training."""
    for node in ast.walk(ast.parse(source)):
        yield from (
            f"line {getattr(node, 'lineno', '?')}: {check.__name__}" for check in CHECKS if check(node)
        )


@pytest.mark.parametrize("path", TRAININGS, ids=lambda path: path.stem)
def test_trainings_cause_their_problems_themselves(path: Path) -> None:
    """Nothing writes the scale, multiplies by infinity, or replays recorded numbers."""
    assert not list(tricks(path.read_text("utf-8")))


def test_there_are_trainings_to_check() -> None:
    """The folders named above hold the demo's three trainings."""
    assert {"transformer", "deblur", "wgan"} <= {path.stem for path in TRAININGS}


@pytest.mark.parametrize(
    "source",
    [
        "scaler._scale = scaler._scale * 0.5",
        "scaler._scale.fill_(0.0)",
        "setattr(scaler, '_scale', 1.0)",
        "loss = loss * float('inf')",
        "loss = loss * torch.inf",
        "loss = loss / 0",
        "loss = loss + math.nan",
        "loss = loss * 1e999",
        "scaler.update(2.0)",
        "scaler.update(new_scale=2.0)",
        "self.scaler.load_state_dict({'scale': 1.0})",
        "rows = open('losses.csv')",
        "rows = json.load(file)",
        f"losses = {list(range(20))}",
    ],
)
def test_tricks_are_found(source: str) -> None:
    """Tests the check: each way to fake a problem is found."""
    assert list(tricks(source))


def test_an_unsafe_cast_is_allowed() -> None:
    """A cast to float16 that overflows by itself is allowed."""
    assert not list(
        tricks("spectrum = torch.fft.rfft2(y.float()).abs().half()\nscaler.step(o)\nscaler.update()")
    )
