"""``GET /runs/{id}/records``: every record of a run, never sampled: JSON pages, JSONL, CSV, Parquet."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, First, Last, Names, cursor, known_run, names_of, page_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import Number
from tocsin_server.http.services import services_of
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.parquet import MissingExtraError
from tocsin_server.transfer.record_export import bodies_of, every_page, file_name, items, series_names

router = resource("records")

MOST = 10_000
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


OLD_HTTP = (
    "An export needs HTTP/1.1, because a truncated file looks complete in HTTP/1.0. Behind nginx, set "
    "`proxy_http_version 1.1`, or use format=json and read page by page."
)
TEXTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.split(";")[0]: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()}},
    **failing(426, 501),
}


@router.get("/runs/{run_id:path}/records", response_model=RecordAnswer, responses=TEXTS)
def records(
    request: Request,
    run_id: str,
    _identity: Reader,
    names: Names = None,
    start: First = None,
    stop: Last = None,
    format: Literal["json", "jsonl", "csv", "parquet"] = "json",
    after: Annotated[str | None, cursor(r"^([0-9]{1,10}\.[0-9]{1,19})?$")] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=MOST, description="Only for format=json; 1000 by default."), WHOLE
    ] = None,
) -> Response:
    """Return all records between two steps, ordered by writer and number. Only JSON is paginated."""
    reader = services_of(request).reader
    known_run(reader, run_id)
    wanted = names_of(names)
    if format == "json":
        page = page_of(
            lambda: reader.records(
                run_id, names=wanted, start=start, stop=stop, after=after, limit=limit or 1000
            ),
            after,
        )
        return ExactJSON({"items": list(items(page)), "next": page.next})
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
