"""Submit what runs accepted to the writer thread, and publish it once it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tocsin.protocol import NONE_YET
from tocsin_server.core.models import (
    RecordBatch,
    RunEvent,
    SavedRuleState,
    Transition,
    WriteBatch,
    Writer,
)
from tocsin_server.runs.active_run import ActiveRun, Done, WriterState
from tocsin_server.runs.commit_queue import Commit, Commits, Pressure, Store
from tocsin_server.runs.pubsub import Hub

Reached = tuple[int, int]
"""Highest numbers of the records and the events of a writer."""


class Durability:
    """Make durable what runs accepted, in order; alerts and acks are sent only after that."""

    def __init__(self, store: Store, hub: Hub, pressure: Pressure, clock: Callable[[], int]) -> None:
        self._store = store
        self._hub = hub
        self._pressure = pressure
        self._clock = clock
        self._commits = Commits(self._settle)
        self._oldest_ns: int | None = None

    def start(self) -> None:
        """Publish commits on the running event loop from now on."""
        self._commits.bind(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop publishing. The writer still commits what was submitted."""
        self._commits.bind(None)

    def accepted(self, now_ns: int) -> None:
        """Note that something was accepted, which is evaluated before it is submitted."""
        if self._oldest_ns is None:
            self._oldest_ns = now_ns

    def submit(
        self,
        run: ActiveRun,
        state: WriterState | None,
        *,
        reached: Reached = (NONE_YET, NONE_YET),
        batch: RecordBatch | None = None,
        event: RunEvent | None = None,
        rejected_to_seq: tuple[Writer, int] | None = None,
        transitions: tuple[Transition, ...] = (),
        changes: Mapping[str, Any] | None = None,
        saved: SavedRuleState | None = None,
    ) -> None:
        """Submit everything that must become durable together; a rule state is saved with the summary.

        ``reached`` are the numbers of records and events of the writer that are durable afterwards.
        """
        changes = changes or {}
        if saved is not None:
            changes = {**changes, "summary": run.saved}
        commit = Commit(run, state, run.evaluated_arrival, *reached, transitions)
        done = partial(self._commits.notify, commit)
        run.pending += 1
        self.accepted(self._clock())
        made = WriteBatch(run.id, batch, event, rejected_to_seq, transitions, saved, changes, done)
        self._store.submit(made)

    def notify(self, state: WriterState, done: Done) -> None:
        """Call ``done`` each time more of this writer becomes durable, or now if everything is."""
        if state.settled:
            done()
        else:
            state.waiting.add(done)

    def _settle(self, commits: list[Commit]) -> None:
        """Publish what a group commit made durable."""
        self._oldest_ns = None if not self._pressure.backlog_bytes else self._clock()
        arrivals: dict[str, int] = {}
        states: dict[WriterState, None] = {}
        for commit in commits:
            commit.run.committed()
            commit.run.durable_arrival = max(commit.run.durable_arrival, commit.arrival)
            arrivals[commit.run.id] = commit.run.durable_arrival
            if commit.writer is not None:
                commit.writer.durable_seq = max(commit.writer.durable_seq, commit.seq)
                commit.writer.durable_event = max(commit.writer.durable_event, commit.event)
                states[commit.writer] = None
            for transition in commit.transitions:
                self._hub.alert(transition)
        for run_id, arrival in arrivals.items():
            self._hub.committed(run_id, arrival)
        for state in states:
            _call(state)
        self._pressure.eased()

    def shift(self, by_ns: int) -> None:
        """Shift all times by ``by_ns`` after a change of the clock."""
        if self._oldest_ns is not None:
            self._oldest_ns += by_ns

    def lag_ms(self) -> int:
        """Return roughly how long the oldest accepted record has waited to become durable."""
        return 0 if self._oldest_ns is None else (self._clock() - self._oldest_ns) // 1_000_000


def _call(state: WriterState) -> None:
    """Call all waiting callbacks, and forget them if nothing is in progress."""
    waiting = list(state.waiting)
    if state.settled and state.held is None:
        state.waiting.clear()
    for done in waiting:
        done()
