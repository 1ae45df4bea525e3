"""The quantum of a column is inferred from its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.importers.conftest import Written, facts, records
from tocsin.importers.digits import Precision
from tocsin.importers.values import Printed, number, total


def quanta(written: Written, text: str, name: str = "a.log") -> dict[str, float]:
    """Return the newest quantum of each column that is not printed in full."""
    newest: dict[str, float] = {}
    for fact in facts(list(written(name, text).items()), "precision"):
        newest[fact.data["name"]] = fact.data["quantum"]
    return {name: quantum for name, quantum in newest.items() if quantum}


def column(*texts: str) -> str:
    """Return a log whose norms are these."""
    return "".join(f"step {step} loss 0.123456789 grad_norm {text}\n" for step, text in enumerate(texts))


@pytest.mark.parametrize(
    ("texts", "quantum"),
    [
        (("0.5", "0.4"), 0.1),
        (("0.0", "0.1"), 0.1),
        (("0", "1", "2"), 1.0),
        (("0.000", "0.000"), 1e-3),
        (("2.0000", "1.0000"), 1e-4),
        (("0.5", "0.41", "0.4"), 0.01),
        (("0.0000", "0.000012"), 1e-6),
        (("0.0", "1e-09"), None),
        (("1.2e+03", "3.4e-05"), None),
        (("0.0", "0.512345678912"), None),
        (("0.000e+00", "0.000e+00"), None),
        (("nan", "inf", "nan"), None),
    ],
)
def test_quantum_of_a_column(written: Written, texts: tuple[str, ...], quantum: float | None) -> None:
    """The number with most decimals counts; an exponent or nine decimals are in full."""
    assert quanta(written, column(*texts)).get("grad_norm") == (quantum and pytest.approx(quantum))


def test_a_column_of_zeros_is_exact_only_beside_numbers_in_full(written: Written) -> None:
    """``0.0`` is what Python prints for 0; ``0.000`` never is."""
    alone = "".join(f"step {step} loss 0.51 grad_norm 0.0\n" for step in range(5))
    assert quanta(written, alone) == {"loss": 0.01, "grad_norm": 0.1}
    assert quanta(written, column("0.0", "0.0", "0.0")) == {}
    assert quanta(written, column("0.000", "0.000")) == {"grad_norm": 1e-3}
    assert quanta(written, column("0.0", "0.0", "0.0", "0.1")) == {"grad_norm": 0.1}


@pytest.mark.parametrize(
    ("texts", "quantum"),
    [
        (("0.001", "0.0"), None),
        (("0.001", "0.000"), 1e-3),
        (("0.000002", "0.000250"), 1e-6),
        (("2e-06", "0.0"), None),
        (("0.1", "0.01"), 0.01),
    ],
)
def test_a_learning_rate_with_few_decimals_is_often_exact(
    written: Written, texts: tuple[str, ...], quantum: float | None
) -> None:
    """A 0 with fewer decimals than other rates is not printed with a fixed number of them."""
    text = "".join(f"step {step} loss 0.51 lr {rate}\n" for step, rate in enumerate(texts))
    assert quanta(written, text).get("lr") == (quantum and pytest.approx(quantum))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_decimals_survive_the_parsers_of_tables_and_json(written: Written, name: str) -> None:
    """``0.0000`` in JSON has four decimals; values in records are plain floats."""
    rows = [(step, "0.0000", "1.5000") for step in range(4)]
    if name == "a.csv":
        text = "step,loss,grad_norm\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    else:
        text = "".join(f'{{"step": {s}, "loss": {loss}, "grad_norm": {norm}}}\n' for s, loss, norm in rows)
    assert quanta(written, text, name) == {"loss": 1e-4, "grad_norm": 1e-4}
    found = records(list(written(name, text).items()))
    assert {type(value) for record in found for value in record.values.values()} == {float}


@given(st.lists(st.floats(0, 1e6), min_size=2), st.integers(0, 6))
def test_a_quantum_only_gets_finer(values: list[float], decimals: int) -> None:
    """So a finding that rests on it never has to be withdrawn, and no value is off the grid."""
    precision, seen = Precision(), [1.0 if decimals == 0 else 10.0]
    for value in values:
        row = {"loss": number(f"{value:.{decimals}f}")}
        seen += [quantum for _, quantum in precision.take({n: v for n, v in row.items() if v is not None})]
    assert seen == sorted(seen, reverse=True)
    assert all(quantum >= 10.0**-decimals * 0.999 for quantum in seen)


def test_a_sum_has_the_decimals_of_its_terms() -> None:
    """0.1 + 0.2 is 0.3, and not 0.30000000000000004 in full."""
    summed = total([0.1, 0.2])
    assert (summed, isinstance(summed, Printed) and summed.places) == (0.3, 1)
    assert total([0.1, 1e-12]) == 0.1 + 1e-12
