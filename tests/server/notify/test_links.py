"""Links to the time of an alert, and signed links that acknowledge it."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.notify.links import VALID_S, acknowledging, is_signed, page, silencing
from tocsin_server.notify.matching import parse_matcher

KEY = b"k" * 32


def asked(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()))
def test_a_link_survives_any_id(alert_id: str) -> None:
    """The page reads from the address exactly what was signed."""
    query = asked(acknowledging("https://t.example", KEY, alert_id, 1000.0))
    assert query["alert"] == alert_id
    assert is_signed(KEY, query["alert"], query["until"], query["signature"], 1000.0)


@given(st.sampled_from(["alert", "until", "signature"]), st.text(max_size=70))
def test_a_changed_link_is_not_ours(field: str, value: str) -> None:
    """Another alert, a later expiry or another signature is rejected."""
    query = asked(acknowledging("", KEY, "r1.f.1", 1000.0))
    if query[field] != value:
        changed = query | {field: value}
        assert not is_signed(KEY, changed["alert"], changed["until"], changed["signature"], 1000.0)


def test_a_link_ends() -> None:
    """After a week."""
    query = asked(acknowledging("", KEY, "r1.f.1", 1000.0))
    for now_s, works in ((1000.0 + VALID_S - 1, True), (1000.0 + VALID_S, False)):
        assert is_signed(KEY, query["alert"], query["until"], query["signature"], now_s) is works


def test_a_moment_is_the_runs_page_at_the_onset() -> None:
    """As web/lib/route.js writes it; a run's id may contain a slash."""
    alert = {"run_id": "a/b", "id": "a/b.f.1", "onset_step": 1790}
    assert page("https://t.example", alert) == "https://t.example/runs/a%2Fb?at=1790&alert=a%2Fb.f.1"


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()))
def test_the_link_of_an_alert_opens_its_incident(incident: str) -> None:
    link = page("https://t.example", {"id": "r1.f.1", "incident": incident})
    assert unquote(link.removeprefix("https://t.example/incidents/")) == incident


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()))
def test_a_silence_link_matches_exactly_its_incident(incident: str) -> None:
    matcher = asked(silencing("https://t.example", {"incident": incident}))["matcher"]
    assert parse_matcher(matcher, "matchers").holds({"incident": incident})


def test_an_alert_of_no_incident_is_silenced_with_its_run() -> None:
    assert asked(silencing("", {"incident": "", "run_id": "r1"}))["matcher"] == 'run_id="r1"'
