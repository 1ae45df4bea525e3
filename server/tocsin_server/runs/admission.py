"""Admit a client: register it in the store, load its run into memory, and return its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from tocsin.protocol import Hello
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import RunState
from tocsin_server.runs.active_run import ActiveRun, WriterState
from tocsin_server.runs.evaluators import Attempt
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.store.connection import Connection
from tocsin_server.store.registration import (
    ForeignRunError,
    LeavingRunError,
    Registered,
    register_keeping_end,
)

log = logging.getLogger("tocsin.admission")

REGISTER_S = 10.0
"""If the database takes longer than this to register a handshake, it counts as failing."""
FOR_RULES = ("versions", "optimizers", "scalers", "schedulers")
"""Fields of a handshake that rules use, see :meth:`RunContext.from_environment`."""
T = TypeVar("T")
Waits = Callable[[Registered], Awaitable[None]]


class TryLaterError(TocsinError):
    """The client cannot be accepted right now, for the given reason. It reconnects with backoff."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"hello: expected {expected}, got {got}")
        self.expected = expected
        self.got = got


class Turn:
    """One handshake in progress, and the memory that it holds."""

    def __init__(self, handshakes: Handshakes) -> None:
        self._handshakes = handshakes
        self._size = 0

    def hold(self, size: int) -> None:
        """Count ``size`` bytes until the turn ends."""
        self._size += size
        self._handshakes.held_bytes += size

    def end(self) -> None:
        """Release the counted bytes."""
        self._handshakes.held_bytes -= self._size


class Handshakes:
    """Limit the memory of concurrent handshakes: above ``limit_bytes``, the next one waits undecoded."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Wait until there is room for another handshake."""
        async with self._room:
            await self._room.wait_for(lambda: self.held_bytes < self.limit_bytes)
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.end()
            async with self._room:
                self._room.notify_all()


class Registry(Protocol):
    """The part of ``store.writer.StoreWriter`` that admission uses."""

    @property
    def failing(self) -> str | None: ...

    def call(self, work: Callable[[Connection], T], *, together: bool = False) -> Future[T]: ...


class Admission:
    """Admit clients; one handshake per run at a time, so that a run is loaded only once."""

    def __init__(self, store: Registry, registry: RunRegistry) -> None:
        self._store = store
        self._registry = registry
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._late: set[asyncio.Task[None]] = set()

    async def admit(
        self, hello: Hello, now_ns: int, *, bound_to: str = "", waits: Waits | None = None
    ) -> tuple[ActiveRun, WriterState]:
        """Register a validated handshake; return its run and writer.

        Args:
            hello: The handshake.
            now_ns: The server's time.
            bound_to: The only project that the client's token may write to; empty for any.
            waits: Called once the handshake is registered, if its run is yet to be loaded; must not raise.

        Raises:
            TryLaterError: The database is failing, or the run was deleted meanwhile.
            ForeignRunError: The run belongs to a project other than ``bound_to``. Nothing was changed.
        """
        with self._registry.tracking_drops() as dropped:
            registered, ended = await self._registered(hello, now_ns, bound_to)
            if waits and not registered.run_is_new and registered.writer.run_id not in self._registry.active:
                await waits(registered)
            run, fresh = await self._present(registered.writer.run_id, now_ns)
            if run.id in dropped:  # the registered rows were deleted, or belong to a new run with this id
                raise _deleted_meanwhile()
        state = _join(run, registered, now_ns - hello.time_ns)
        if not fresh:
            _learn(run, registered, hello, now_ns)
        if not ended:
            metadata = run.summary.metadata
            metadata.state, metadata.ended_ns, metadata.error = RunState.RUNNING, None, None
        run.summary.metadata.last_seen_ns = now_ns
        return run, state

    async def present(self, run_id: str, now_ns: int) -> ActiveRun:
        """Return the run in memory, after loading it from the store if necessary.

        Raises:
            TryLaterError: The run no longer exists, or it cannot be read.
        """
        return (await self._present(run_id, now_ns))[0]

    async def _present(self, run_id: str, now_ns: int) -> tuple[ActiveRun, bool]:
        """Return the run in memory, and whether it was loaded by this call."""
        async with self._locks.setdefault(run_id, asyncio.Lock()):
            run = self._registry.active.get(run_id)
            return (run, False) if run is not None else (await self._loaded(run_id, now_ns), True)

    async def _registered(self, hello: Hello, now_ns: int, bound_to: str) -> tuple[Registered, bool]:
        if self._store.failing:
            raise TryLaterError("a working database", self._store.failing)
        await self._evaluated(hello.run)
        given = [hello]  # emptied after a timeout: the cancelled call stays in the queue until its turn
        call = self._store.call(
            lambda connection: register_keeping_end(connection, given[0], now_ns, bound_to=bound_to),
            together=True,
        )
        try:
            return await asyncio.wait_for(asyncio.wrap_future(call), REGISTER_S)
        except ForeignRunError:
            raise
        except LeavingRunError as error:
            raise TryLaterError(*error.args) from error
        except TimeoutError as error:
            if call.cancelled():
                given.clear()
            self._see_to(call, now_ns)
            raise TryLaterError(f"a database that answers within {REGISTER_S:g} s", "no answer") from error
        except Exception as error:
            log.exception("the handshake of run %s could not be registered", hello.run)
            raise TryLaterError("a working database", type(error).__name__) from error

    async def _evaluated(self, run_id: str) -> None:
        """Wait for the rules, so that the end of the previous attempt is submitted before the handshake."""
        run = self._registry.active.get(run_id)
        if run is not None and not run.turns.idle:
            try:
                await asyncio.wait_for(run.turns.drained(), REGISTER_S)
            except TimeoutError as error:
                expected = f"rules that process earlier records within {REGISTER_S:g} s"
                raise TryLaterError(expected, "no answer") from error

    def _see_to(self, call: Future[tuple[Registered, bool]], now_ns: int) -> None:
        """Watch a registration that timed out, unless it was cancelled before it began."""
        if not call.cancelled():
            task = asyncio.create_task(self._come_late(call, now_ns))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def _come_late(self, call: Future[tuple[Registered, bool]], now_ns: int) -> None:
        """Load the run of a late registration; otherwise the watchdog could not detect a lost client."""
        try:
            registered, ended = await asyncio.wrap_future(call)
            if not ended:
                await self._present(registered.writer.run_id, now_ns)
        except Exception as error:  # noqa: BLE001 - the client was asked to retry
            log.warning("a handshake that took more than %g s failed: %s", REGISTER_S, error)

    async def _loaded(self, run_id: str, now_ns: int) -> ActiveRun:
        try:
            return await self._registry.load(run_id, now_ns)
        except LookupError as error:
            raise _deleted_meanwhile() from error
        except Exception as error:
            log.exception("run %s could not be read", run_id)
            raise TryLaterError("a readable run", type(error).__name__) from error


def _deleted_meanwhile() -> TryLaterError:
    return TryLaterError("a run that stays", "one that was deleted meanwhile")


def _join(run: ActiveRun, registered: Registered, offset_ns: int) -> WriterState:
    """Return the state of a writer after its handshake. A known writer continues where it was accepted."""
    number = registered.writer.writer_no
    state = run.writers.get(number)
    if state is None:
        state = run.writers[number] = WriterState(
            registered.writer,
            seq=registered.last_seq,
            event=registered.last_event,
            durable_seq=registered.last_seq,
            durable_event=registered.last_event,
        )
    state.offset_ns = offset_ns
    state.connections += 1
    state.notices.clear()
    run.series.update(registered.series)
    run.heartbeat.silent_since_ns = None
    return state


def _learn(run: ActiveRun, registered: Registered, hello: Hello, now_ns: int) -> None:
    """Update a run that is already in memory with a handshake. Only rank 0 may change the metadata."""
    metadata, attempt = run.summary.metadata, registered.writer.attempt_no
    newer = attempt > metadata.attempt
    metadata.attempt, metadata.attempts = max(metadata.attempt, attempt), registered.attempts
    if newer:
        run.heartbeat.restart(now_ns)
    if hello.writer.rank != 0 or registered.superseded:
        return
    if "tags" not in metadata.edited:
        metadata.tags = tuple(hello.tags) or metadata.tags
    metadata.host = hello.host or metadata.host
    metadata.planned_steps = metadata.planned_steps if hello.planned_steps is None else hello.planned_steps
    if newer:
        environment = {name: getattr(hello, name) for name in FOR_RULES}
        begun = Attempt(hello.world_size, hello.planned_steps, environment)
        run.turns.add(lambda done: run.evaluator.inform(begun, done))
