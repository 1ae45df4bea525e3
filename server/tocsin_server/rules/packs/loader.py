"""Load rule packs: predefined rule documents included with the server, one TOML file each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from tocsin_server.rules.documents import PACK, Difference, Document, apply_document, read_document
from tocsin_server.store import rules
from tocsin_server.store.connection import Connection


@dataclass(frozen=True)
class Pack:
    """A rule pack; ``name`` is the stem of its file name."""

    name: str
    title: str
    description: str
    document: Document


def read_pack(name: str, text: str) -> Pack:
    """Parse a pack.

    Raises:
        FieldError: A field is invalid.
        TOMLDecodeError: ``text`` is not TOML.
    """
    body: dict[str, Any] = tomllib.loads(text)
    document = read_document({**body, "source": PACK + name}, pack=True)
    return Pack(name, str(body.get("title", name)), str(body.get("description", "")), document)


@lru_cache(maxsize=1)
def packs() -> dict[str, Pack]:
    """Return every pack by its name."""
    found = sorted((file.name, file) for file in files("tocsin_server.rules.packs").iterdir())
    return {
        name.removesuffix(".toml"): read_pack(name.removesuffix(".toml"), file.read_text("utf-8"))
        for name, file in found
        if name.endswith(".toml")
    }


def switched_on(connection: Connection) -> set[str]:
    """Return the names of the enabled packs, which are those with a stored rule or tuning."""
    sources = {row.source for row in rules.read_custom_rules(connection)}
    sources |= {row.source for row in rules.tunings(connection)}
    return {source.removeprefix(PACK) for source in sources if source.startswith(PACK)}


def switch(connection: Connection, pack: Pack, on: bool, *, actor: str, now_ns: int) -> list[Difference]:
    """Enable or disable a pack by creating or deleting its rules.

    Raises:
        FieldError: Another source has a rule with the same id.
    """
    wanted = pack.document if on else Document(pack.document.source)
    return apply_document(connection, wanted, actor=actor, now_ns=now_ns)
