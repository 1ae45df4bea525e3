"""How long: texts in, steps or nanoseconds out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.errors import FieldError
from tocsin_server.detect.custom.span import MOST_NS, MOST_STEPS, Span, read_span

spans = st.one_of(
    st.integers(0, MOST_STEPS).map(Span), st.integers(0, MOST_NS).map(lambda ns: Span(ns, timed=True))
)


@given(spans)
def test_a_span_is_read_as_it_was_written(span: Span) -> None:
    """To the nanosecond."""
    assert read_span(str(span), "for") == span


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1 step", "1 step"),
        ("20steps", "20 steps"),
        ("90 s", "90 s"),
        ("120 s", "2 min"),
        ("0.5 min", "30 s"),
    ],
)
def test_a_span_is_written_in_its_largest_whole_unit(text: str, written: str) -> None:
    """Two spellings of the same span are therefore equal."""
    assert str(read_span(text, "for")) == written


@pytest.mark.parametrize(
    "text", ["", "20", "-1 steps", "1.5 steps", "9999999 steps", "31 d", "1e3 s", 5, None]
)
def test_an_invalid_span_is_rejected_with_its_field(text: object) -> None:
    """With the field's name."""
    with pytest.raises(FieldError) as reported:
        read_span(text, "window")
    assert reported.value.field == "window"
