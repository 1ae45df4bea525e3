"""Query parameters that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Query

from tocsin_server.responses import Problem
from tocsin_server.store.answers import RunFacts
from tocsin_server.store.reader import StoreReader

Names = Annotated[
    list[str] | None,
    Query(description="Series, comma separated; given several times, each is one name as it stands."),
]
T = TypeVar("T")
First = Annotated[int | None, Query(alias="from", description="First step.")]
Last = Annotated[int | None, Query(alias="to", description="Last step, included.")]


def names_of(given: list[str] | None) -> list[str] | None:
    """The series asked for, None for all. A name with a comma in it is asked for by repeating ``names``."""
    if not given:
        return None
    found = given[0].split(",") if len(given) == 1 else given
    return list(dict.fromkeys(name for name in found if name)) or None


def known_run(reader: StoreReader, run_id: str) -> RunFacts:
    """The run of this id. Raises a 404 Problem."""
    facts = reader.run(run_id)
    if facts is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return facts


def page_of(read: Callable[[], T], after: str | None) -> T:
    """What ``read`` answers. Raises a 422 Problem where it refuses ``after`` as a cursor."""
    try:
        return read()
    except ValueError as error:
        raise Problem(422, subject="after", expected="`next` of an earlier page", got=after or "") from error
