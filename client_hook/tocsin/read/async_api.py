"""``tocsin.AsyncApi``: the methods of ``tocsin.Api`` for asyncio. Requests run in threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from .answers import Alert, Checkpoints, ConsoleLine, Event, Incident, Run, RunDetail
from .api import (
    COMPARED_BUCKETS,
    INTERVAL_S,
    LOST_S,
    OUTAGE_S,
    VITAL_SIGNS,
    Connected,
    export_of,
    written,
)
from .exchange import Answer, Asking, Found, Request, Streaming, Wait
from .following import Following
from .operations import BUCKETS
from .table import Gathering, Table

T = TypeVar("T")


class AsyncPages(Generic[T]):
    """A stream of results, requested from the server page by page: use ``async for``."""

    def __init__(self, begin: Callable[[], AsyncIterator[T]]) -> None:
        self._begin = begin

    def __aiter__(self) -> AsyncIterator[T]:
        return self._begin()

    async def all(self) -> list[T]:
        """Return all results as a list."""
        return [result async for result in self]


class AsyncRecords(AsyncPages[Table]):
    """Every record of a run, as tables of one page each. Only the current page is in memory."""

    async def table(self) -> Table:
        """Return all records as one table."""
        gathering = Gathering()
        async for page in self:
            gathering.add(page)
        return gathering.table()


class AsyncApi(Connected):
    """``tocsin.Api`` for asyncio: the same methods with the same arguments, to await or to ``async for``.

    Methods that return pages (``runs``, ``records``, ``events``, ``alerts``, ``incidents``, ``console``,
    ``follow``, ``follow_console``) are not awaited themselves.
    """

    async def __aenter__(self) -> AsyncApi:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def runs(self, filter: str = "", *, project: str | None = None) -> AsyncPages[Run]:
        """See ``Api.runs``."""
        return AsyncPages(lambda: self._stream(self._ask.runs(filter, project)))

    async def run(self, run: str | Run) -> RunDetail:
        """See ``Api.run``."""
        return await self._done(self._ask.run(run))

    async def metrics(
        self,
        run: str | Run,
        *names: str,
        start: float | None = None,
        stop: float | None = None,
        buckets: int = BUCKETS,
    ) -> Table:
        """See ``Api.metrics``."""
        return await self._done(self._ask.metrics(run, names, start, stop, buckets))

    async def compare(
        self, runs: Iterable[str | Run], *names: str, buckets: int = COMPARED_BUCKETS
    ) -> dict[str, Table]:
        """See ``Api.compare``."""
        return await self._done(self._ask.compare(runs, names or VITAL_SIGNS, buckets))

    def records(
        self, run: str | Run, *names: str, start: int | None = None, stop: int | None = None
    ) -> AsyncRecords:
        """See ``Api.records``."""
        return AsyncRecords(lambda: self._stream(self._ask.records(run, names, start, stop)))

    def follow(
        self,
        run: str | Run,
        *names: str,
        since: int | None = None,
        interval: float = INTERVAL_S,
        outage: float = OUTAGE_S,
        lost: float = LOST_S,
    ) -> AsyncIterator[Table]:
        """See ``Api.follow``."""
        return self._stream(self._ask.follow(run, names, since, Following(interval, outage, lost)))

    def console(
        self,
        run: str | Run,
        *,
        contains: str = "",
        start: int | None = None,
        stop: int | None = None,
        tail: int | None = None,
    ) -> AsyncPages[ConsoleLine]:
        """See ``Api.console``."""
        return AsyncPages(lambda: self._stream(self._ask.console(run, contains, start, stop, tail)))

    def follow_console(
        self,
        run: str | Run,
        *,
        contains: str = "",
        tail: int | None = 0,
        interval: float = INTERVAL_S,
        outage: float = OUTAGE_S,
        lost: float = LOST_S,
    ) -> AsyncIterator[ConsoleLine]:
        """See ``Api.follow_console``."""
        return self._stream(self._ask.follow_console(run, contains, tail, Following(interval, outage, lost)))

    def events(self, run: str | Run, *, without: tuple[str, ...] = ()) -> AsyncPages[Event]:
        """See ``Api.events``."""
        return AsyncPages(lambda: self._stream(self._ask.events(run, tuple(without))))

    async def checkpoints(self, run: str | Run, *, before: int | None = None) -> Checkpoints:
        """See ``Api.checkpoints``."""
        return await self._done(self._ask.checkpoints(run, before))

    def alerts(
        self, run: str | Run | None = None, *, state: str | None = None, severity: str | None = None
    ) -> AsyncPages[Alert]:
        """See ``Api.alerts``."""
        return AsyncPages(lambda: self._stream(self._ask.alerts(run, state, severity)))

    async def alert(self, id: str) -> Alert:
        """See ``Api.alert``."""
        return await self._done(self._ask.alert(id))

    def incidents(self, run: str | Run | None = None, *, state: str | None = None) -> AsyncPages[Incident]:
        """See ``Api.incidents``."""
        return AsyncPages(lambda: self._stream(self._ask.incidents(run, state)))

    async def incident(self, id: str) -> Incident:
        """See ``Api.incident``."""
        return await self._done(self._ask.incident(id))

    async def acknowledge_alert(self, id: str, note: str = "") -> None:
        """See ``Api.acknowledge_alert``."""
        await self._done(self._ask.acknowledge("alerts", id, note))

    async def acknowledge_incident(self, id: str, note: str = "") -> None:
        """See ``Api.acknowledge_incident``."""
        await self._done(self._ask.acknowledge("incidents", id, note))

    async def export(
        self, run: str | Run, path: str | os.PathLike[str], *names: str, format: str = ""
    ) -> Path:
        """See ``Api.export``."""
        place, form = export_of(path, format)
        await self._download(await self._done(self._ask.export(run, names, form)), place, None)
        return place

    async def download(
        self,
        path: str,
        file: str | os.PathLike[str],
        query: Mapping[str, Any] | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Path:
        """See ``Api.download``. ``advance`` is called in a thread."""
        place = Path(file)
        await self._download(Request(path, query or {}), place, advance)
        return place

    async def _download(self, request: Request, place: Path, advance: Callable[[int], object] | None) -> None:
        body = await asyncio.to_thread(self._http.streamed, request)
        if isinstance(body, Answer):
            self._ask.check(request, body)
        else:
            await asyncio.to_thread(written, body, place, advance)

    async def get(self, path: str, **query: Any) -> Any:
        """See ``Api.get``."""
        return await self._done(self._ask.get(path, query))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Api.post``."""
        return await self._done(self._ask.post(path, body))

    async def _done(self, steps: Asking[T]) -> T:
        """Carry out an operation and return its result."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._carried_out(step)

    async def _stream(self, steps: Streaming[T]) -> AsyncGenerator[T, None]:
        """Carry out an operation and yield its results."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            if isinstance(step, Found):
                answer = None
                yield step.value
            else:
                answer = await self._carried_out(step)

    async def _carried_out(self, step: Request | Wait) -> Answer | None:
        if isinstance(step, Request):
            return await asyncio.to_thread(self._http.send, step)
        await asyncio.sleep(step.seconds)
        return None
