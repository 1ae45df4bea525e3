"""Formulas over series: read like those of the run page, whose module runs beside it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tocsin_server.core.formula import DEEPEST, LONGEST, FormulaError, read_formula

PAGE = Path(__file__).parents[3] / "web" / "lib" / "charts" / "formula.js"
KNOWN = ["loss", "train/loss", "lr", "a.b"]
TEXTS = [
    *("loss", "train/loss / 2", "loss - -lr", "1 / (loss - 2)", "log(lr) * exp(loss)", "sqrt (a.b)"),
    *("abs(lr - loss) * 1.5e-3", "2 * loss ^ 2", "loss2", "(loss", "loss + ", "3 + .5", "log(loss"),
    *("loss loss", "--loss", "0 / loss", "a.b.c", "loss+train/loss/lr", "(" * (DEEPEST + 1) + "loss"),
    *(" + ".join(["loss"] * 60), "sqrt(0 - loss)", "5.", "1e400 * loss", "é", "lossé"),
]
VALUES = {"loss": 2.0, "train/loss": 0.25, "lr": -3.0, "a.b": 7.0}
SCRIPT = """
const { readFormula } = await import(process.argv[1]);
const [known, values, texts] = JSON.parse(process.argv[2]);
const found = texts.map((text) => {
  try {
    const { names, value } = readFormula(text, known);
    return String(value(names.map((name) => values[name])));
  } catch (error) {
    return "rejected";
  }
});
console.log(JSON.stringify(found));
"""


def result(text: str) -> float | None:
    """Return the value of a formula, or None if it is rejected."""
    try:
        formula = read_formula(text, KNOWN)
    except FormulaError:
        return None
    with np.errstate(all="ignore"):
        return float(formula.value([np.array([VALUES[name]]) for name in formula.names])[0])


def test_a_formula_means_what_it_means_on_the_run_page() -> None:
    asked = json.dumps([KNOWN, VALUES, TEXTS])
    command = ["node", "--input-type=module", "-e", SCRIPT, str(PAGE), asked]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    expected = [None if each == "rejected" else float(each.replace("Infinity", "inf")) for each in found]
    assert [result(text) for text in TEXTS] == [
        each if each is None else pytest.approx(each, nan_ok=True) for each in expected
    ]
    assert 3 < expected.count(None) < len(TEXTS) - 10


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("loss - val", "no metric that begins at 'val'"),
        ("1 + 2", "at least one metric"),
        ("(loss", "not closed"),
        ("l" * (LONGEST + 1), "at most 300"),
    ],
)
def test_what_is_wrong_with_a_formula_is_in_the_error(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        read_formula(text, KNOWN)
