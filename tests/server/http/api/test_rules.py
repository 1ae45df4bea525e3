"""Rules over the API: built-in rules with their settings, custom rules, packs and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

MINE = {
    "id": "api-mine",
    "series": "val/*",
    "reducer": "mean",
    "window": "20 steps",
    "comparison": "<",
    "limit": 24,
}


def asked(server: Any, method: str, path: str, body: Any = None, token: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token or server.token}"}
    return httpx.request(method, f"{server.base}/api/v1{path}", json=body, headers=headers, timeout=60)


@pytest.fixture(autouse=True)
def no_rules_are_left(server: Any) -> Iterator[None]:
    """Delete the rules of a test, because the server is shared."""
    yield
    for rule in server.get("/rules")["custom"]:
        asked(server, "DELETE", f"/rules/{rule['id']}")
    for rule in server.get("/rules")["items"]:
        for tuning in rule["tunings"]:
            asked(server, "DELETE", f"/rules/{rule['id']}/settings?project={tuning['project']}")


def own(server: Any) -> dict[str, Any]:
    return {rule["id"]: rule for rule in server.get("/rules")["custom"]}


def test_every_rule_is_described(server: Any) -> None:
    """Identifier, severity, clock, its page, and settings with units."""
    rules = {rule["id"]: rule for rule in server.get("/rules")["items"]}
    collapse = rules["scaler-collapse"]
    assert (collapse["kind"], collapse["severity"], collapse["enabled"]) == ("builtin", "critical", True)
    assert collapse["doc"].endswith("/scaler-collapse/")
    assert all(set(setting) == {"name", "value", "unit", "help"} for setting in collapse["settings"])


def test_a_built_in_rule_is_explained(server: Any) -> None:
    for rule in server.get("/rules")["items"]:
        text = asked(server, "GET", f"/rules/{rule['id']}/explanation").json()["text"]
        assert "## Likely causes" in text
        assert "## First action" in text
    refused = asked(server, "GET", "/rules/nobody/explanation")
    assert (refused.status_code, refused.json()["subject"]) == (404, "rule")


def test_rules_are_created_changed_copied_deleted_and_audited(server: Any) -> None:
    """Omitted fields have their defaults; each action is recorded."""
    made = asked(server, "POST", "/rules", MINE)
    assert (made.status_code, made.json()["for"], made.json()["created_by"]) == (
        201,
        "0 steps",
        "admin login link",
    )
    changed = asked(server, "PATCH", "/rules/api-mine", {"limit": 25, "enabled": False}).json()
    assert (changed["limit"], changed["enabled"], changed["window"]) == (25.0, False, "20 steps")
    copy = asked(server, "POST", "/rules/api-mine/copy", {"id": "api-copy"}).json()
    assert (copy["limit"], copy["enabled"], copy["source"]) == (25.0, False, "")
    assert asked(server, "DELETE", "/rules/api-mine").status_code == 204
    assert set(own(server)) == {"api-copy"}
    acts = [
        (act["action"], act["actor"])
        for act in server.get("/rules/changes")["items"]
        if act["rule"] == "api-mine"
    ]
    assert {"rule.create", "rule.change", "rule.delete"} <= {action for action, _ in acts}
    assert {actor for _, actor in acts} == {"admin login link"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "subject"),
    [
        ("POST", "/rules", MINE | {"limit": "NaN"}, 422, "limit"),
        ("POST", "/rules", MINE | {"series": "*" * 9}, 422, "series"),
        ("POST", "/rules", MINE | {"id": "loss-spike"}, 422, "id"),
        ("POST", "/rules", MINE | {"colour": 1}, 422, "colour"),
        ("PATCH", "/rules/nobody", {"limit": 1}, 404, "rule"),
        ("POST", "/rules/nobody/copy", {"id": "x"}, 404, "rule"),
        ("DELETE", "/rules/nobody", None, 404, "rule"),
        ("PUT", "/rules/nobody/settings", {"enabled": False}, 404, "rule"),
        ("PUT", "/rules/loss-spike/settings", {"settings": {"window": -1}}, 422, "settings.window"),
        ("PUT", "/rules/loss-spike/settings", {"severity": "page"}, 422, "severity"),
        ("PUT", "/rules/loss-spike/settings", {}, 422, "settings"),
        ("DELETE", "/rules/loss-spike/settings?project=none", None, 404, "settings"),
        ("PUT", "/rules/packs/nothing", {"enabled": True}, 404, "pack"),
        ("POST", "/rules/apply", {"source": "pack:x"}, 422, "source"),
        ("POST", "/rules/apply", {"source": "x", "rules": [MINE, MINE]}, 422, "rule[1].id"),
        ("POST", "/backtest", {"draft": MINE | {"for": "soon"}, "project": "p"}, 422, "for"),
        ("POST", "/backtest", {"draft": MINE, "rule": "plateau"}, 422, "body"),
    ],
)  # fmt: skip
def test_an_invalid_rule_is_rejected_by_field(
    server: Any, method: str, path: str, body: Any, status: int, subject: str
) -> None:
    """The response is a problem with the reason; nothing is stored."""
    answer = asked(server, method, path, body)
    assert (answer.status_code, answer.json()["subject"]) == (status, subject), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert own(server) == {}


def test_ids_are_unique(server: Any) -> None:
    """Also by a built-in rule; the existing rule is unchanged."""
    asked(server, "POST", "/rules", MINE)
    again = asked(server, "POST", "/rules", MINE | {"limit": 1})
    assert (again.status_code, again.json()["subject"]) == (422, "id")
    assert own(server)["api-mine"]["limit"] == 24.0


def test_settings_are_in_force_for_their_project(server: Any) -> None:
    """Settings of a project override those of all projects; after their deletion the default applies."""
    for project, body in (("*", {"enabled": False, "settings": {"relative": 0.5}}), ("p", {"enabled": True})):
        asked(server, "PUT", "/rules/loss-spike/settings", {"project": project, **body})

    def in_force(project: str) -> tuple[bool, float]:
        (rule,) = [
            item for item in server.get("/rules", project=project)["items"] if item["id"] == "loss-spike"
        ]
        return rule["enabled"], rule["effective"]["settings"]["relative"]

    assert (in_force("p"), in_force("q")) == ((True, 0.5), (False, 0.5))
    asked(server, "DELETE", "/rules/loss-spike/settings?project=*")
    assert in_force("q")[0] is True


def test_a_pack_is_switched_and_a_file_applied(server: Any) -> None:
    """Repeating it, and a dry run, change nothing; an export equals the file."""
    assert asked(server, "PUT", "/rules/packs/gan", {"enabled": True}).json()["enabled"] is True
    assert {rule["source"] for rule in own(server).values()} == {"pack:gan"}
    asked(server, "PUT", "/rules/packs/gan", {"enabled": False})
    file = {"source": "team", "rules": [MINE], "builtin": [{"rule": "plateau", "enabled": False}]}
    dry = asked(server, "POST", "/rules/apply", file | {"dry_run": True}).json()
    assert ([change["action"] for change in dry["changes"]], own(server)) == (["create", "create"], {})
    assert len(asked(server, "POST", "/rules/apply", file).json()["changes"]) == 2
    again = asked(server, "POST", "/rules/apply", file).json()
    assert (again["changes"], again["unchanged"]) == ([], 2)
    assert 'id = "api-mine"' in server.get("/rules/export", source="team")["toml"]
    asked(server, "POST", "/rules/apply", {"source": "team"})


def test_a_draft_is_tried_on_stored_runs(server: Any, trainer: Callable[..., Any]) -> None:
    """Where it would have fired, which series it used, and the number of healthy steps; nothing is stored."""
    run = trainer(project="tried")
    run.records({"loss": [1.0] * 60, "x": [1.0] * 30 + [9.0] * 10 + [1.0] * 20})
    draft = {"series": "x", "comparison": ">", "limit": 5, "for": "2 steps", "severity": "critical"}
    for where in ({"runs": [run.run]}, {"project": "tried"}):
        found = asked(server, "POST", "/backtest", {"draft": draft, **where}).json()
        (row,) = found["runs"]
        assert (row["series"], row["steps"], row["healthy_steps"]) == (["x"], 60, 60)
        (fired,) = row["firings"]
        assert (fired["onset_step"], fired["step"], fired["resolved_step"], fired["healthy"]) == (
            30,
            32,
            40,
            True,
        )
        assert found["alerts_per_1000_healthy_steps"]["critical"] == pytest.approx(1000 / 60)
    assert own(server) == {}
    meant = asked(server, "POST", "/backtest", {"draft": draft | {"projects": ["tried"]}, "most": 1}).json()
    assert [row["run"] for row in meant["runs"]] == [run.run]


def test_readers_change_no_rule(server: Any) -> None:
    """Reading and testing are allowed, writing is not."""
    token = asked(server, "POST", "/tokens", {"name": "looks", "scope": "read", "project": None}).json()[
        "token"
    ]
    assert asked(server, "GET", "/rules", token=token).status_code == 200
    for method, path, body in (
        ("POST", "/rules", MINE),
        ("DELETE", "/rules/x", None),
        ("POST", "/rules/apply", {"source": "a"}),
        ("PUT", "/rules/packs/gan", {"enabled": True}),
        ("PUT", "/rules/plateau/settings", {}),
    ):
        assert asked(server, method, path, body, token=token).status_code == 403
