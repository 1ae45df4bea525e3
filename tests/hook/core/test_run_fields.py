"""Names, tags and notes are adapted to the limits of the server, with a warning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.core.run_fields import (
    NAME_BYTES,
    NOTES,
    TAGS,
    count_of,
    name_of,
    notes_of,
    run_of,
    seconds_of,
    tags_of,
)
from tocsin.protocol import Hello, WriterId
from tocsin_server.runs.validation.handshake import read_handshake, read_sealed
from tocsin_server.runs.validation.limits import Limits

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)


@given(name=ANY_TEXT, tag=ANY_TEXT, run=ANY_TEXT, notes=ANY_TEXT, steps=st.one_of(st.integers(), st.floats()))
def test_no_run_is_rejected_because_of_its_name(
    name: str, tag: str, run: str, notes: str, steps: float
) -> None:
    """For any values of a script, the server accepts the handshake."""
    writer = WriterId("a", 0, "b", 1, 1)
    hello = Hello(
        *(1, "", "p", name_of(name, "name") or "n", run_of(run) or "r", writer, 1, "h", 0),
        planned_steps=count_of(steps, "planned_steps"),
        tags=tags_of([tag] * (TAGS + 3)),
        notes=notes_of(notes),
    )
    _, rejected = read_handshake(read_sealed(protocol.encode(hello)), Limits())
    assert [refusal for refusal in rejected if refusal.scope == "connection"] == []


def test_valid_fields_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """Usual names are sent without a warning."""
    assert name_of("Ünïcode 実験 #3", "name") == "Ünïcode 実験 #3"
    assert tags_of("fp16") == tags_of(["fp16"]) == ["fp16"]
    assert run_of("r_1:a.b-c") == "r_1:a.b-c"
    assert tags_of(None) == []
    assert notes_of(None) == ""
    assert count_of(None, "planned_steps") is None
    assert caplog.text == ""


def test_invalid_fields_are_adapted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One warning each, with the expected and the actual value."""
    assert name_of("ü" * 200, "name") == "ü" * (NAME_BYTES // 2)
    assert name_of("a\nb\udcff", "name") == "a b?"
    assert run_of("my run/1") == "my-run-1"
    assert len(tags_of(range(TAGS + 1))) == TAGS
    assert len(notes_of("x" * (NOTES + 1))) == NOTES
    assert [record.getMessage().split(":")[1] for record in caplog.records] == [
        " name",
        " name",
        " run id",
        " tags",
    ]


@pytest.mark.parametrize("given_", [1000, 1e3, np.int64(1000), torch.tensor(1000), "1000"])
def test_counts_are_read_from_any_number(given_: Any) -> None:
    """``len(loader) * epochs / accumulate`` is a float."""
    assert count_of(given_, "planned_steps") == 1000


@pytest.mark.parametrize("given_", [-1, float("nan"), float("inf"), "many", 2**62, object()])
def test_an_invalid_count_is_left_out(given_: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The run starts without it."""
    assert count_of(given_, "planned_steps") is None
    assert "planned_steps: expected a whole number" in caplog.text


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [(None, 3.0), (2, 2.0), ("5", 5.0), (-1, 0.0), (float("inf"), 86_400.0), (float("nan"), 3.0), ([], 3.0)],
)
def test_a_timeout_is_finite_and_not_negative(given_: Any, seconds: float) -> None:
    """``join`` accepts neither None nor infinity."""
    assert seconds_of(given_, 3.0) == seconds


@pytest.mark.parametrize("given", [".", "..", "..."])
def test_a_run_id_of_only_dots_is_adapted(given: str) -> None:
    """URLs and paths treat it as another directory, so the server rejects it."""
    assert run_of(given) == "-" * len(given)
