"""Selection of routes for an alert."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import RUN_FAILED, Severity
from tocsin_server.notify.routing import (
    FALLBACK,
    MOST_MATCHERS,
    Routing,
    channels_of,
    plain,
    problems,
    read_routing,
    read_stored_routing,
)

Make = Callable[..., Any]


def named(routing: Routing, labels: dict[str, str]) -> list[str]:
    return [route.name for route in routing.routes_of(labels)]


def test_without_a_decision_warnings_and_criticals_go_everywhere(make_routed_alert: Make) -> None:
    """The default route has all channels. Info alerts are not sent."""
    routing = Routing()
    (route,) = routing.routes_of(make_routed_alert(severity="critical").labels)
    assert channels_of(route, ["mail", "chat"]) == ["mail", "chat"]
    assert routing.routes_of(make_routed_alert(severity="info").labels) == []
    assert (route.wait_ns(Severity.CRITICAL), route.wait_ns(Severity.WARNING)) == (3 * 10**8, 30 * 10**9)
    assert route.wait_ns(Severity.CRITICAL, RUN_FAILED) == 3 * 10**9, "a launcher may restart it"


def test_the_first_route_that_matches_ends_the_list_unless_it_continues() -> None:
    """As in Alertmanager, but without nesting."""
    routing = read_routing({"routes": [
        {"name": "all to the log", "channels": ["log"], "continue": True},
        {"name": "gan", "matchers": ['project="gan"'], "channels": ["chat"]},
        {"name": "off", "enabled": False},
        {"name": "rest", "matchers": ['severity="critical"'], "channels": ["mail"]},
    ]})  # fmt: skip
    assert named(routing, {"project": "gan", "severity": "critical"}) == ["all to the log", "gan"]
    assert named(routing, {"project": "llm", "severity": "critical"}) == ["all to the log", "rest"]
    assert named(routing, {"project": "llm", "severity": "warning"}) == ["all to the log"]
    assert channels_of(routing.routes[1], ["log", "chat", "mail"]) == ["chat"]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8))
def test_the_first_route_without_continue_ends_the_search(
    kinds: list[tuple[bool, bool, bool]],
) -> None:
    """Every selected route matches and is enabled, only the last may end the list, and no match is
    skipped."""
    routing = read_routing({"routes": [
        {"name": str(at), "matchers": [f'rule="{"x" if hits else "y"}"'], "continue": on, "enabled": alive}
        for at, (hits, on, alive) in enumerate(kinds)
    ]})  # fmt: skip
    expected = []
    for at, (hits, on, alive) in enumerate(kinds):
        if hits and alive:
            expected.append(str(at))
            if not on:
                break
    assert named(routing, {"rule": "x"}) == expected


def test_the_document_is_written_as_it_is_read() -> None:
    """The plain form of a document parses to an equal one; also the default."""
    night = {"name": "n", "zone": "UTC", "times": [{"from": "22:00", "to": "06:00"}]}
    own = {"routes": [{"name": "a", "group_wait_s": 0, "mute_times": ["n"]}], "mute_times": [night]}
    for body in ({}, own, own | {"inhibitions": []}):
        routing = read_routing(body)
        assert read_routing(plain(routing)) == routing


@pytest.mark.parametrize(
    ("route", "field"),
    [
        ({}, "routes[0].name"),
        ({"name": "a", "matcher": []}, "routes[0].matcher"),
        ({"name": "a", "matchers": ["x"]}, "routes[0].matchers[0]"),
        ({"name": "a", "group_wait_s": -1}, "routes[0].group_wait_s"),
        ({"name": "a", "group_wait_s": float("nan")}, "routes[0].group_wait_s"),
        ({"name": "a", "group_wait_s": True}, "routes[0].group_wait_s"),
        ({"name": "a", "repeat_interval_s": 1}, "routes[0].repeat_interval_s"),
        ({"name": "a", "channels": "x"}, "routes[0].channels"),
        ({"name": "a\ud800"}, "routes[0].name"),
        ({"name": "a", "channels": ["\0"]}, "routes[0].channels[0]"),
        ({"name": "a", "matchers": ['rule="\udfff"']}, "routes[0].matchers[0]"),
        ({"name": "a", "mute_times": ["n"]}, "routes[0].mute_times"),
        ("a", "routes[0]"),
        ({"name": "a", "continue": 1}, "routes[0].continue"),
    ],
)
def test_a_bad_route_is_rejected_by_field(route: Any, field: str) -> None:
    """The error has the place in the document, what was expected and what was found."""
    with pytest.raises(FieldError, match=re.escape(f"{field}: expected")):
        read_routing({"routes": [route]})


def test_two_routes_may_not_share_a_name() -> None:
    """Groups are stored by the name of the route."""
    with pytest.raises(FieldError, match=re.escape("routes[1].name")):
        read_routing({"routes": [{"name": "a"}, {"name": "a"}]})


BROKEN = {"name": "old", "matchers": ['rule=~"(a)\\\\1"'], "channels": ["mail"]}


def test_an_unreadable_route_does_not_affect_others() -> None:
    """It matches nothing and reports why; alerts without another route take the default route."""
    good = {"name": "gan", "matchers": ['project="gan"'], "channels": ["chat"]}
    routing = read_stored_routing({"routes": [BROKEN, good], "inhibitions": []})
    assert named(routing, {"project": "gan", "severity": "critical"}) == ["gan"]
    assert named(routing, {"project": "llm", "severity": "critical"}) == [FALLBACK.name]
    assert routing.route(FALLBACK.name) is FALLBACK
    assert named(routing, {"project": "llm", "severity": "info"}) == []
    assert [one["subject"] for one in problems(routing)] == ["routes[0].matchers[0]"]


def test_an_unreadable_part_stays_in_the_document() -> None:
    """At its place, so that a user can correct it instead of writing it again."""
    good = plain(read_routing({"routes": [{"name": "a"}, {"name": "b"}]}))
    broken = good["routes"][0] | BROKEN
    stored = good | {"routes": [good["routes"][0], broken, good["routes"][1]]}
    assert plain(read_stored_routing(stored)) == stored


@pytest.mark.parametrize("part", ["inhibitions", "mute_times"])
def test_other_unreadable_parts_are_left_out(part: str) -> None:
    """An inhibition that cannot be read inhibits nothing; the routes are unchanged."""
    routing = read_stored_routing({"routes": [{"name": "a"}], part: [{"x": 1}, 7]})
    assert [one["subject"] for one in problems(routing)] == [f"{part}[0].x", f"{part}[1]"]
    assert (named(routing, {}), getattr(routing, part)) == (["a"], ())


def test_an_expensive_document_is_rejected() -> None:
    """The number of matchers and the size of regular expressions are limited."""
    many = [{"name": str(at), "matchers": ['rule="x"'] * 50} for at in range(MOST_MATCHERS // 50 + 1)]
    large = [{"name": str(at), "matchers": ['rule=~".{0,150}x"']} for at in range(50)]
    for routes in (many, large):
        with pytest.raises(FieldError, match="routing: expected"):
            read_routing({"routes": routes, "inhibitions": []})
