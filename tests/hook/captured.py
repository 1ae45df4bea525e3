"""A watch whose records are collected instead of being sent to a server."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tocsin
from tocsin.api.run import Run
from tocsin.api.startup import begin


class KeptOutbox:
    """Stand-in for an outbox that keeps everything readable."""

    def __init__(self) -> None:
        self.items: list[tuple[Any, ...]] = []
        self.reported: list[tuple[str, int | None, dict[str, Any]]] = []

    def put(self, item: tuple[Any, ...], may_wait: bool = False) -> None:
        assert isinstance(item[0], int)
        assert all(type(value) is float for value in item[3:]), item
        assert len(item[2]) == len(item) - 3 == len(set(item[2])), item
        self.items.append(item)

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None:
        self.reported.append((kind, step, data))

    @property
    def records(self) -> list[dict[str, float]]:
        """Return each record as a mapping, its step under ``step``."""
        return [{"step": item[0], **dict(zip(item[2], item[3:], strict=True))} for item in self.items]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the data of the events of a kind, each with its step."""
        return [{"step": step, **data} for name, step, data in self.reported if name == kind]

    def series(self, name: str) -> list[tuple[int, float]]:
        """Return the (step, value) pairs of one name."""
        return [(int(record["step"]), record[name]) for record in self.records if name in record]


class KeptSender:
    """Stand-in for a sender: counts starts, and keeps how the run ended."""

    def __init__(self) -> None:
        self.started = 0
        self.closed: list[tuple[str, dict[str, Any] | None]] = []

    def start(self) -> None:
        self.started += 1

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None:
        self.closed.append((state, error))

    def forget(self) -> None:
        raise AssertionError("only a fork forgets")


def watch(outbox: Any = None, sender: Any = None, **options: Any) -> Run:
    """Call ``tocsin.watch`` with defaults for this outbox and sender, parallel to other runs."""
    parameters = inspect.signature(tocsin.watch).parameters
    given = {name: one.default for name, one in parameters.items() if name != "project"}
    given["parallel"] = True
    outbox = KeptOutbox() if outbox is None else outbox
    sender = KeptSender() if sender is None else sender
    run = begin("tests", outbox=outbox, sender=sender, **{**given, **options})
    assert isinstance(run, Run)
    return run


@contextmanager
def watched(**options: Any) -> Iterator[tuple[Run, KeptOutbox]]:
    """Yield a run with its outbox; finish it at the end and check that there was no internal error."""
    outbox = KeptOutbox()
    run = watch(outbox, **options)
    try:
        yield run, outbox
    finally:
        run.finish()
    assert run._reporter.errors == 0
