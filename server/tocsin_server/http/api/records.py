"""``GET /runs/{id}/records``: every record, never sampled: pages of JSON, JSONL, CSV, Parquet."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from tocsin_server.core.models import RunState
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import (
    WHOLE,
    First,
    Last,
    Names,
    Step,
    cursor,
    known_run,
    names_of,
    page_of,
)
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import Number, Packed
from tocsin_server.http.services import services_of
from tocsin_server.transfer.column_names import COORDINATES
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.parquet import MissingExtraError
from tocsin_server.transfer.record_export import (
    bodies_of,
    every_page,
    file_name,
    items,
    packed_page,
    series_names,
)

router = resource("records")

MOST = 10_000
CELLS = 1 << 19
"""Numbers in a packed page, at most 6 MB as text: bounds the memory of a page for runs with many series."""
MEDIA_TYPES = {
    Format.JSONL: "application/x-ndjson",
    Format.CSV: "text/csv; charset=utf-8",
    Format.PARQUET: "application/vnd.apache.parquet",
}


class Record(TypedDict):
    """The values of one step from one writer."""

    seq: int
    writer: int
    attempt: int
    rank: int
    step: int
    time_ms: float
    time_ns: int
    arrival: int
    values: dict[str, Number]


class RecordAnswer(TypedDict):
    """A page of records; ``next`` is the cursor for ``after``, null at the end."""

    items: list[Record]
    next: str | None


class PackedWhole(TypedDict):
    """An int64 array: ``bdata`` is base64 of little-endian values."""

    dtype: Literal["i8"]
    bdata: str


class PackedRows(TypedDict):
    """A uint32 array: ``bdata`` is base64 of little-endian values."""

    dtype: Literal["u4"]
    bdata: str


class PackedColumn(TypedDict):
    """The values of one series; ``rows`` are their records, null if every record has one."""

    name: str
    values: Packed
    rows: PackedRows | None


class PackedRecords(TypedDict):
    """A page of records as arrays of ``n`` numbers.

    ``cursor``: pass it as ``since`` later to get what has arrived meanwhile. Records with a larger
    ``arrival`` than the cursor may be in the page too. ``state`` is that of the run before the page was read:
    if it has ended, no record follows.
    """

    n: int
    writer: PackedWhole
    attempt: PackedWhole
    rank: PackedWhole
    seq: PackedWhole
    step: PackedWhole
    time_ns: PackedWhole
    arrival: PackedWhole
    columns: list[PackedColumn]
    next: str | None
    cursor: int
    state: RunState


OLD_HTTP = (
    "An export needs HTTP/1.1, because a truncated file looks complete in HTTP/1.0. Behind nginx, set "
    "`proxy_http_version 1.1`, or use format=json and read page by page."
)
TEXTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.split(";")[0]: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()}},
    **failing(426, 501),
}


@router.get("/runs/{run_id:path}/records", response_model=RecordAnswer | PackedRecords, responses=TEXTS)
def records(
    request: Request,
    run_id: str,
    _identity: Reader,
    names: Names = None,
    start: First = None,
    stop: Last = None,
    format: Literal["json", "packed", "jsonl", "csv", "parquet"] = "json",
    after: Annotated[str | None, cursor(r"^([0-9]{1,10}\.[0-9]{1,19})?$")] = None,
    limit: Annotated[
        int | None,
        Query(ge=1, le=MOST, description="Only for format=json, 1000 by default, and format=packed."),
        WHOLE,
    ] = None,
    since: Annotated[
        Step | None, Query(description="`cursor` of an earlier page. Only for format=json and format=packed.")
    ] = None,
) -> Response:
    """Return all records between two steps, ordered by writer and number. Only JSON is paginated.

    ``packed`` is JSON with a page of records as arrays, exact and about five times faster to read.
    """
    reader = services_of(request).reader
    stored = known_run(reader, run_id)
    wanted = names_of(names)
    if format in ("json", "packed"):
        width = len(COORDINATES) + len(stored.series if wanted is None else wanted)
        most = min(limit or MOST, max(1, CELLS // width)) if format == "packed" else limit or 1000
        newest = reader.last_arrival(run_id)  # first: what arrives meanwhile is later than the cursor
        page = page_of(
            lambda: reader.records(
                run_id, names=wanted, start=start, stop=stop, after=after, limit=most, since=since
            ),
            after,
        )
        if format == "json":
            return ExactJSON({"items": list(items(page)), "next": page.next})
        return ExactJSON(packed_page(page) | {"next": page.next, "cursor": newest, "state": stored.state})
    if request.scope["http_version"] == "1.0":
        raise Problem(426, subject="HTTP", expected="HTTP/1.1", got="HTTP/1.0", detail=OLD_HTTP)
    form = Format(format)
    later = every_page(reader, run_id, names=wanted, start=start, stop=stop)
    first = next(later, None)  # read before the response begins: an error here gets its own status
    pages = later if first is None else chain([first], later)
    headers = {
        "content-disposition": f'attachment; filename="{_saved_as(run_id, wanted)}.{form}"',
        "cache-control": "no-store",
    }
    try:
        bodies = bodies_of(pages, form, wanted if wanted is not None else series_names(reader, run_id))
    except MissingExtraError as error:
        got = "a server without pyarrow"
        raise Problem(501, subject="format", expected="another format", got=got, detail=str(error)) from error
    return StreamingResponse(bodies, media_type=MEDIA_TYPES[form], headers=headers)


def _saved_as(run_id: str, names: list[str] | None) -> str:
    """Return the file name of the run, with the series name if there is only one."""
    return "-".join(map(file_name, [run_id, *names] if names and len(names) == 1 else [run_id]))
