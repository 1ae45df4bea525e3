"""The card of a run: bounded curves, non-finite values always marked, names that are only text."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, strategies

from tocsin.notebook.card import MOST, Card
from tocsin.notebook.curve import BUCKETS, Curve
from tocsin.protocol import Alert

FACTS = {"name": "run <1>", "project": "p", "url": "http://x/runs/r1", "state": "running"}


class Output:
    """The output under a cell; keeps what was displayed."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, bool]] = []
        self.now = 0.0

    def display(self, html: str, display_id: str, *, update: bool) -> None:
        self.shown.append((html, update))

    def card(self, alerts: Any = ()) -> Card:
        """Return a card that is shown here."""
        card = Card(lambda: dict(FACTS), lambda: alerts, display=self.display, clock=lambda: self.now)
        card.show()
        return card


@given(strategies.lists(strategies.floats(), max_size=2000))
def test_a_curve_is_bounded_and_loses_no_extreme(values: list[float]) -> None:
    curve = Curve()
    for step, value in enumerate(values):
        curve.add(step, value)
    finite = [value for value in values if math.isfinite(value)]
    known = [bucket for bucket in curve.buckets if not bucket.is_empty]
    assert len(curve.buckets) <= BUCKETS
    assert sum(bucket.nonfinite for bucket in curve.buckets) == len(values) - len(finite)
    assert min((bucket.low for bucket in known), default=None) == min(finite, default=None)
    assert max((bucket.high for bucket in known), default=None) == max(finite, default=None)


def test_a_nan_is_a_red_line_and_a_number() -> None:
    card = Output().card()
    for step in range(5):
        card.take((step, 0, ("loss",), math.nan if step == 3 else 1.0))
    html = card.html()
    assert "loss: 1, 1 NaN or Inf" in html
    assert html.count("<line ") == 1
    assert html.count("<polyline ") == 2


def test_vital_signs_come_first_and_the_number_of_charts_is_bounded() -> None:
    card = Output().card()
    names = tuple(f"metric{k}" for k in range(20))
    card.take((0, 0, (*names, "grad_norm", "loss"), *[1.0] * 22))
    found = [part.split(":")[0] for part in card.html().split("<figcaption>")[1:]]
    assert found == ["loss", "grad_norm", *names[: MOST - 2]]


def test_the_places_are_for_metrics_and_numbers_are_written_as_elsewhere() -> None:
    """What describes the recording of a step is not drawn; an alert does not say its step twice."""
    card = Output().card([Alert("a1", "r", "critical", "firing", "Loss is NaN at step 7", onset_step=7)])
    names = ("loss", "loss_n", "stepped/G", "skipped", "hook/cost_us", "val/acc")
    card.take((7, 0, names, math.nan, *[1.0] * 5))
    html = card.html()
    assert [part.split("<")[0] for part in html.split("<figcaption>")[1:]] == [
        "loss: NaN, 1 NaN or Inf",
        "val/acc: 1",
    ]
    assert "Loss is NaN at step 7 (firing)" in html


def test_names_and_alerts_are_text() -> None:
    alert = Alert("a1", "r", "critical", "firing", "<b>NaN</b>", onset_step=1200)
    html = Output().card([alert]).html()
    assert "run &lt;1&gt;" in html
    assert "&lt;b&gt;NaN&lt;/b&gt; since step 1,200 (firing)" in html
    assert "<b>" not in html


def test_it_is_updated_at_most_once_per_second_and_only_if_it_changed() -> None:
    output = Output()
    card = output.card()
    for tenth in range(1, 31):
        output.now = tenth / 10
        if tenth <= 20:
            card.take((tenth, 0, ("loss",), 1.0))
        card.sample()
    assert [update for _, update in output.shown] == [False, True, True]


def test_a_notebook_that_is_gone_does_not_matter() -> None:
    output = Output()
    card = output.card()

    def gone(*given: Any, **options: Any) -> None:
        raise OSError("the kernel has no output")

    card._display = gone
    output.now = 5.0
    card.take((1, 0, ("loss",), 1.0))
    card.sample()
    assert len(output.shown) == 1
