"""Which incidents resemble one, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.similar_incidents import Fingerprint, similar_incidents

COLLAPSE = Fingerprint(
    incident_id="a", onset_ns=100, severe=True, cause="Likely a learning rate of #.", rule="scaler-collapse",
    rules=frozenset({"scaler-collapse", "nonfinite-loss"}), layers=frozenset({"body.5"}), series="scale",
    settings={"lr": "0.01", "depth": "4"},
)  # fmt: skip
STALL = Fingerprint(
    "s", 100, True, "The process hangs.", "stalled", frozenset({"stalled"}), frozenset(), "", {}
)


def names(own: Fingerprint, *others: Fingerprint) -> list[str]:
    return [each.incident_id for each in similar_incidents(own, others)]


def test_the_same_cause_in_another_run_is_similar_and_says_why() -> None:
    (found,) = similar_incidents(COLLAPSE, [replace(COLLAPSE, incident_id="b")])
    assert found.reasons == (
        "same likely cause", "same alert (scaler-collapse)", "same layer (body.5)",
        "2 of 2 alerts in common", "nearly the same configuration",
    )  # fmt: skip


def test_another_problem_with_the_same_configuration_is_not_similar() -> None:
    assert names(COLLAPSE, replace(STALL, settings=COLLAPSE.settings)) == []


def test_the_same_alert_alone_is_not_enough() -> None:
    """With another cause, other alerts, another layer and another configuration."""
    other = Fingerprint(
        "b", 1, True, "Another.", "scaler-collapse", frozenset({"scaler-collapse", "x", "y"}),
        frozenset({"head"}), "scale/D", {"lr": "1"},
    )  # fmt: skip
    assert names(COLLAPSE, other) == []


def test_the_same_layer_makes_an_incident_more_similar() -> None:
    elsewhere = replace(COLLAPSE, incident_id="b", layers=frozenset({"head"}), onset_ns=999)
    assert names(COLLAPSE, elsewhere, replace(COLLAPSE, incident_id="c")) == ["c", "b"]


def test_of_equally_similar_ones_the_newest_is_first() -> None:
    ages = [replace(COLLAPSE, incident_id=name, onset_ns=at) for name, at in (("old", 1), ("new", 9))]
    assert names(COLLAPSE, *ages) == ["new", "old"]


def test_information_is_not_similar_to_a_problem() -> None:
    assert names(COLLAPSE, replace(COLLAPSE, incident_id="b", severe=False)) == []


def test_an_incident_without_a_cause_is_not_similar_to_all_others_without() -> None:
    assert names(replace(STALL, cause=""), replace(COLLAPSE, cause="")) == []


few = st.sampled_from
fingerprints = st.builds(
    Fingerprint,
    incident_id=few("abcdef"),
    onset_ns=st.integers(0, 3),
    severe=st.booleans(),
    cause=few(["", "x", "y"]),
    rule=few(["r", "s"]),
    rules=st.frozensets(few("rstu")),
    layers=st.frozensets(few("lm")),
    series=few(["", "loss"]),
    settings=st.dictionaries(few("pq"), few("12")),
)


@given(fingerprints, fingerprints)
def test_similarity_is_mutual(one: Fingerprint, other: Fingerprint) -> None:
    there, back = similar_incidents(one, [other]), similar_incidents(other, [one])
    assert [(each.points, each.reasons) for each in there] == [(each.points, each.reasons) for each in back]


@given(fingerprints, st.lists(fingerprints, max_size=6, unique_by=lambda each: each.incident_id))
def test_the_order_of_the_others_does_not_matter(own: Fingerprint, others: list[Fingerprint]) -> None:
    assert similar_incidents(own, others) == similar_incidents(own, others[::-1])


@pytest.mark.parametrize("own", [COLLAPSE, STALL])
def test_an_incident_is_not_similar_to_itself(own: Fingerprint) -> None:
    assert names(own, own) == []
