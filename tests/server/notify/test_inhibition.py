"""Open alerts that inhibit notifications of others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.inhibition import MOST_NAMED, Inhibition, inhibited_by, read_inhibition
from tocsin_server.notify.labels import RoutedAlert
from tocsin_server.notify.routing import Routing

Make = Callable[..., Any]
DEFAULTS = Routing().inhibitions


def inhibitors(
    target: RoutedAlert, others: list[RoutedAlert], rules: Sequence[Inhibition]
) -> tuple[str, ...]:
    return inhibited_by([target], others, rules)[target.alert.id]


@pytest.mark.parametrize(
    ("source", "target", "muted"),
    [
        ("nonfinite-loss", "loss-spike", True),
        ("nonfinite-loss", "plateau", True),
        ("nonfinite-loss", "vanishing-gradient", True),
        ("nonfinite-loss", "scaler-collapse", False),
        ("trainer-lost", "stalled", True),
        ("stalled", "trainer-lost", False),
    ],
)
def test_the_defaults(make_routed_alert: Make, source: str, target: str, muted: bool) -> None:
    """A non-finite loss explains spike, plateau and vanishing; a lost client explains the stall."""
    assert bool(inhibitors(make_routed_alert(target), [make_routed_alert(source)], DEFAULTS)) is muted


def test_only_the_same_run_and_only_while_open(make_routed_alert: Make) -> None:
    """A NaN of another run, a resolved one and a pending one inhibit nothing."""
    spike = make_routed_alert("loss-spike")
    for other in (
        make_routed_alert("nonfinite-loss", run_id="r2"),
        make_routed_alert("nonfinite-loss", state="resolved"),
        make_routed_alert("nonfinite-loss", state="pending"),
    ):
        assert inhibitors(spike, [other], DEFAULTS) == ()
    recovering = make_routed_alert("nonfinite-loss", state="recovering")
    assert inhibitors(spike, [recovering], DEFAULTS) == (recovering.alert.id,)


def test_nothing_inhibits_itself_or_its_kind(make_routed_alert: Make) -> None:
    """An alert that is both source and target is sent; otherwise nothing would be."""
    rule = read_inhibition({"source": ['severity="critical"'], "target": ['rule=~".*"']}, "i")
    one, two = make_routed_alert("a", "critical"), make_routed_alert("b", "critical")
    assert inhibitors(one, [one, two], [rule]) == ()
    assert inhibitors(make_routed_alert("c", "warning"), [one, two], [rule]) == (one.alert.id, two.alert.id)


def test_many_sources_are_named_up_to_a_bound(make_routed_alert: Make) -> None:
    """Neither result nor work grows with the product of sources and targets."""
    rule = read_inhibition({"source": ['severity="critical"'], "target": ['rule="x"']}, "i")
    sources = [make_routed_alert(f"a{at}", "critical") for at in range(MOST_NAMED + 20)]
    assert len(inhibitors(make_routed_alert("x"), sources, [rule])) == MOST_NAMED


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": []}, "i.source"),
        ({"target": ["x"]}, "i.target[0]"),
        ({"equal": [1]}, "i.equal[0]"),
        ({"x": 1}, "i.x"),
    ],
)
def test_invalid_fields_are_named(change: dict[str, Any], field: str) -> None:
    """An inhibition without matchers would mute everything, so it is rejected with the field's name."""
    with pytest.raises(FieldError, match=re.escape(f"{field}: expected")):
        read_inhibition({"source": ['rule="a"'], "target": ['rule="b"']} | change, "i")
