"""``/rules/packs``, ``/rules/apply`` and ``/rules/export``: packs and rule files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.detect.custom import threshold
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.rules import changed
from tocsin_server.http.services import services_of
from tocsin_server.rules.documents import Difference, Document, apply_document, exported, read_document
from tocsin_server.rules.packs.loader import Pack, packs, switch, switched_on
from tocsin_server.store.connection import Connection

router = resource("rules")


class PackItem(TypedDict):
    """A pack and its rules; ``enabled``: at least one of its rules exists."""

    name: str
    title: str
    description: str
    enabled: bool
    rules: list[dict[str, Any]]


class PackList(TypedDict):
    """All packs, by name."""

    items: list[PackItem]


class PackSwitch(Body):
    """On creates the rules of a pack, off deletes them."""

    enabled: bool


class RuleFile(Body):
    """The contents of a rule file: ``rules`` is its ``[[rule]]``, ``builtin`` its ``[[builtin]]``."""

    source: str
    rules: list[Any] = Field([], max_length=1000)
    builtin: list[Any] = Field([], max_length=5000)
    dry_run: bool = False


class ChangedField(TypedDict):
    """A field before and after, null if it is absent."""

    field: str
    before: Any
    after: Any


class ChangeItem(TypedDict):
    """``action`` is create, change or delete; ``kind`` is rule or settings (of a built-in rule)."""

    action: Literal["create", "change", "delete"]
    kind: Literal["rule", "settings"]
    id: str
    project: str
    fields: list[ChangedField]


class Applied(TypedDict):
    """What applying the file changed, or would change."""

    source: str
    dry_run: bool
    changes: list[ChangeItem]
    unchanged: int


class Exported(TypedDict):
    """Rules as a file."""

    toml: str


def pack_item(pack: Pack, on: bool) -> dict[str, Any]:
    """Return a pack as the API shows it."""
    shown = [threshold.plain(rule) for rule in pack.document.rules]
    return {"name": pack.name, "title": pack.title, "description": pack.description, "enabled": on,
            "rules": shown}  # fmt: skip


def change_item(change: Difference) -> dict[str, Any]:
    """Return a difference as the API shows it."""
    fields = [{"field": name, "before": before, "after": after} for name, before, after in change.fields]
    return {"action": change.action, "kind": change.kind, "id": change.id, "project": change.project,
            "fields": fields}  # fmt: skip


def applied(document: Document, changes: Sequence[Difference], dry_run: bool) -> dict[str, Any]:
    """Return what applying a file changed, or would change, as the API shows it."""
    touched = sum(change.action != "delete" for change in changes)
    return {
        "source": document.source,
        "dry_run": dry_run,
        "changes": [change_item(change) for change in changes],
        "unchanged": len(document.rules) + len(document.tunings) - touched,
    }


@router.get("/rules/packs", response_model=PackList)
def list_packs(request: Request, _identity: Reader) -> ExactJSON:
    """List the rule packs."""
    with services_of(request).reader.consistent() as connection:
        on = switched_on(connection)
    return ExactJSON({"items": [pack_item(pack, pack.name in on) for pack in packs().values()]})


@router.put("/rules/packs/{name}", response_model=PackItem)
async def switch_pack(request: Request, name: str, wanted: PackSwitch, identity: Editor) -> ExactJSON:
    """Create the rules of a pack as shipped with this version, or delete them."""
    pack = packs().get(name)
    if pack is None:
        raise Problem(404, subject="pack", expected=" or ".join(packs()), got=name)

    def work(connection: Connection) -> None:
        switch(connection, pack, wanted.enabled, actor=actor_of(identity), now_ns=time.time_ns())

    await changed(services_of(request), work)
    return ExactJSON(pack_item(pack, wanted.enabled))


@router.post("/rules/apply", response_model=Applied)
async def apply_rules(request: Request, wanted: RuleFile, identity: Editor) -> ExactJSON:
    """Replace the rules of a source with those in the file, atomically. Rules of other sources are kept."""
    document = read_document({"source": wanted.source, "rule": wanted.rules, "builtin": wanted.builtin})

    def work(connection: Connection) -> list[Difference]:
        return apply_document(
            connection, document, actor=actor_of(identity), now_ns=time.time_ns(), dry_run=wanted.dry_run
        )

    changes = await changed(services_of(request), work)
    return ExactJSON(applied(document, changes, wanted.dry_run))


@router.get("/rules/export", response_model=Exported)
def export_rules(
    request: Request,
    _identity: Reader,
    source: Annotated[
        str, Query(max_length=100, description="Rules of this source; empty: rules created by hand.")
    ] = "",
) -> ExactJSON:
    """Return rules as a TOML file for ``tocsin-server rules apply``."""
    with services_of(request).reader.consistent() as connection:
        return ExactJSON({"toml": exported(connection, source)})
