"""Views of the fleet are saved by name, for all users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import server_thread
from tocsin_server.http.api import saved_views

PATH = "/api/v1/views"


class Views:
    """The route of saved views, by the token of the server."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def ask(self, method: str, path: str = "", body: Any = None) -> httpx.Response:
        address = f"{self._server.base}{PATH}{path}"
        return httpx.request(method, address, json=body, headers=self._server.headers)

    def save(self, **fields: Any) -> dict[str, Any]:
        answer = self.ask("POST", body=fields)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def all(self) -> list[dict[str, Any]]:
        return list(self.ask("GET").json()["items"])


@pytest.fixture
def views(server: Any) -> Iterator[Views]:
    """No view before and after the test."""
    views = Views(server)
    yield views
    for view in views.all():
        views.ask("DELETE", f"/{view['id']}")


def test_a_view_is_saved_as_it_was_sent(views: Views) -> None:
    fields = {"name": "best \u540d\u524d", "project": "deblur", "filter": "val_loss<0.5 \"a b\"",
              "columns": "name,min:val%2Closs~120", "sort": "-min:val,loss", "grouping": "none",
              "is_default": True}  # fmt: skip
    saved = views.save(**fields)
    assert {name: saved[name] for name in fields} == fields
    assert views.all() == [saved]


def test_a_view_is_renamed_changed_and_deleted(views: Views) -> None:
    view = views.save(name="one")
    changed = views.ask("PATCH", f"/{view['id']}", {"name": "two", "filter": "tag:x"}).json()
    assert (changed["name"], changed["filter"], changed["sort"]) == ("two", "tag:x", "")
    assert views.ask("DELETE", f"/{view['id']}").status_code == 204
    assert views.all() == []
    for method in ("PATCH", "DELETE"):
        assert views.ask(method, f"/{view['id']}", {}).status_code == 404


def test_a_project_has_one_default_at_most(views: Views) -> None:
    """Another project's default stays."""
    first = views.save(name="a", is_default=True)
    other = views.save(name="a", project="p", is_default=True)
    views.save(name="b", is_default=True)
    assert [view["id"] for view in views.all() if not view["is_default"]] == [first["id"]]
    views.ask("PATCH", f"/{first['id']}", {"is_default": True})
    assert {view["id"] for view in views.all() if view["is_default"]} == {first["id"], other["id"]}


def test_a_name_is_used_once_in_a_project(views: Views) -> None:
    views.save(name="a")
    views.save(name="a", project="p")
    answer = views.ask("POST", body={"name": " a "})
    assert (answer.status_code, answer.json()["subject"]) == (422, "name")
    assert answer.json()["detail"].endswith("Choose another name.")


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "x", "filter": "x" * 2001}, "filter"),
        ({"name": "x", "grouping": "moon"}, "grouping"),
        ({"name": "x", "color": "red"}, "color"),
        ({}, "name"),
    ],
)
def test_what_cannot_be_saved_is_refused(views: Views, fields: dict[str, Any], subject: str) -> None:
    answer = views.ask("POST", body=fields)
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)
    assert views.all() == []


def test_too_many_views_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST", 2)
    with server_thread(tmp_path) as server:
        views = Views(server)
        for name in ("one", "two"):
            views.save(name=name)
        answer = views.ask("POST", body={"name": "one more"})
    assert (answer.status_code, answer.json()["subject"]) == (422, "views")
    assert "Delete one first" in answer.json()["detail"]


def test_changes_are_in_the_audit_log(views: Views, server: Any) -> None:
    view = views.save(name="seen", project="p")
    views.ask("PATCH", f"/{view['id']}", {"name": "again"})
    views.ask("DELETE", f"/{view['id']}")
    entries = server.get("/audit", subject=view["id"])["items"]
    assert [entry["action"] for entry in entries] == ["view.delete", "view.change", "view.create"]
    assert entries[1]["details"] == {"name": "again", "project": "p", "changed": ["name"]}


def test_reading_is_enough_to_list_views_and_not_to_save_one(views: Views, server: Any) -> None:
    views.save(name="seen")
    asked = {"name": "reader", "scope": "read", "project": None}
    made = httpx.post(f"{server.base}/api/v1/tokens", json=asked, headers=server.headers).json()
    reader = {"authorization": f"Bearer {made['token']}"}
    listed = httpx.get(f"{server.base}{PATH}", headers=reader)
    assert [view["name"] for view in listed.json()["items"]] == ["seen"]
    refused = httpx.post(f"{server.base}{PATH}", json={"name": "mine"}, headers=reader)
    assert (refused.status_code, refused.json()["subject"]) == (403, "scope")


def test_a_view_is_not_renamed_to_a_name_in_use(views: Views) -> None:
    views.save(name="one")
    other = views.save(name="two")
    answer = views.ask("PATCH", f"/{other['id']}", {"name": "one"})
    assert (answer.status_code, answer.json()["subject"]) == (422, "name")
    assert [view["name"] for view in views.all()] == ["one", "two"]
