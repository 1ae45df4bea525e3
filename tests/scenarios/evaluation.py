"""Run a training with the real hook, and evaluate the real rules, in one process without a server.

Records take the same path as in production: the hook's outbox, the sender's columns, the server's validation,
the engine, the alert state. Only the socket, the store and batching by time are left out: a batch is
``FLUSH`` records, or fewer before an event.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import Any, ParamSpec, TypeVar, cast

import torch

from tests.hook.captured import KeptOutbox, KeptSender, watch
from tests.matrix import ALL
from tocsin.api.run import Run
from tocsin.protocol import Column, Records, Sparse
from tocsin_server.core.models import Alert, RecordBatch, RunEvent, Severity, Writer
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.detect.interface.similar_runs import SERVER, SimilarRun, SimilarRuns
from tocsin_server.offline.replay import Evaluator
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.runs.validation.records import Position, read_records

FLUSH = 20
STEP_NS = 50_000_000
"""Time between records as the rules see it: results do not depend on how busy this machine is."""
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
Item = RecordBatch | RunEvent
Training = Callable[[Run], None]
Args = ParamSpec("Args")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Variant:
    """What may differ between two machines or two repetitions of a training and must not change a test's
    result.

    That is the random seed, and the kernels that round a convolution or a product.
    """

    seed: int = 0
    mkldnn: bool = True

    def __str__(self) -> str:
        return f"seed{self.seed}{'' if self.mkldnn else '-plain'}"


VARIANTS = [Variant(0), Variant(0, mkldnn=False), Variant(1, mkldnn=False), Variant(2)]
"""With ``TOCSIN_TEST_ALL`` every test here is run for each of them; else for the first."""
if not ALL:
    del VARIANTS[1:]
_current = VARIANTS[0]


@contextmanager
def using(variant: Variant) -> Iterator[None]:
    """Train with this variant during the block."""
    global _current
    _current = variant
    usual = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = variant.mkldnn  # type: ignore[assignment] # a property of the module
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = usual


def seeded(number: int) -> int:
    """Return ``number`` for the first seed, another number for each other one."""
    return number + 1000 * _current.seed


def per_variant(make: Callable[Args, Made]) -> Callable[Args, Made]:
    """Call ``make`` once for each variant and arguments, and keep what it returns."""

    @cache
    def kept(_variant: Variant, *args: Hashable) -> Made:
        return cast(Callable[..., Made], make)(*args)

    def made(*args: Args.args, **_none: Args.kwargs) -> Made:
        return kept(_current, *cast(tuple[Hashable, ...], args))

    return made


class Wire(KeptOutbox):
    """Records and events of one process in the order in which the hook sent them."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: list[tuple[Any, ...]] = []
        self.failure: dict[str, Any] | None = None
        self.ended = False
        """Set when the run has ended: what a thread still reports would change the data of later tests."""

    def put(self, item: tuple[Any, ...], may_wait: bool = False) -> None:
        item = _evenly(item)
        super().put(item)
        if not self.ended:
            self.in_order.append(item)

    def put_event(
        self, kind: str, t_ns: int, step: int | None, data: dict[str, Any], may_wait: bool = False
    ) -> None:
        super().put_event(kind, t_ns, step, data)
        if not self.ended:
            self.in_order.append((kind, step, data))

    def parts(self) -> Iterator[list[tuple[Any, ...]] | tuple[Any, ...]]:
        """Yield rows that are sent together, and events between them; the finish at the end."""
        waiting: list[tuple[Any, ...]] = []
        for item in self.in_order:
            if isinstance(item[0], int):
                waiting.append(item)
            if waiting and (len(waiting) == FLUSH or not isinstance(item[0], int)):
                yield waiting
                waiting = []
            if not isinstance(item[0], int):
                yield item
        if waiting:
            yield waiting
        state = "failed" if self.failure else "finished"
        yield "finish", None, {"state": state, "error": self.failure}


def _evenly(item: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the record as if each step had taken ``STEP_NS``."""
    values = (
        STEP_NS / 1e9 if name == "step_time" else value for name, value in zip(item[2], item[3:], strict=True)
    )
    return (*item[:3], *values)


def trained(training: Training, **options: Any) -> Wire:
    """Run ``training`` under a watch, seeded. An exception ends it as failed."""
    wire, sender = Wire(), KeptSender()
    torch.set_num_threads(THREADS)
    torch.manual_seed(seeded(0))
    run = watch(wire, sender, **options)
    with suppress(RuntimeError), run:
        training(run)
    wire.failure, wire.ended = sender.closed[-1][1], True
    assert run._reporter.errors == 0
    return wire


@dataclass
class EvaluatedRun:
    """Alerts of a run in the order in which they fired."""

    alerts: list[Alert]

    @property
    def severe(self) -> list[Alert]:
        """Return those at warning or above."""
        return [alert for alert in self.alerts if alert.severity is not Severity.INFO]

    @property
    def rules(self) -> list[str]:
        """Return the rules of the alerts at warning or above, each once, in the order in which they fired."""
        return list(dict.fromkeys(alert.rule for alert in self.severe))

    def of(self, rule: str, subject: str | None = None) -> Alert:
        """Return the first alert of a rule. Raises AssertionError if it did not fire."""
        for alert in self.alerts:
            if alert.rule == rule and subject in (None, alert.subject):
                return alert
        raise AssertionError(f"expected an alert of {rule}, got {[alert.rule for alert in self.alerts]}")


def evaluated(
    *wires: Wire, siblings: Sequence[SimilarRun] = (), planned_steps: int | None = None
) -> EvaluatedRun:
    """Evaluate the rules over the data of these processes of one run, as if they had sent it
    simultaneously."""
    context = RunContext(run_id="r", project="tests", world_size=1, planned_steps=planned_steps)
    evaluator = Evaluator(context)
    streams = [_items(wire, number) for number, wire in enumerate(wires, 1)]
    arrival = 0
    if siblings:
        reported = SimilarRuns(tuple(siblings)).plain()
        evaluator.take(RunEvent(Writer("r", SERVER, 1, 0), 0, 0, SIMILAR_RUNS, 0, None, reported))
    for received in chain.from_iterable(zip_longest(*streams)):
        if received is not None:
            arrival += 1
            evaluator.take(received)
    return EvaluatedRun(evaluator.alerts)


def _items(wire: Wire, number: int) -> Iterator[Item]:
    """Yield what the server would pass to the rules."""
    writer, seq, arrival = Writer("r", number, 1, 0), 0, 0
    newest = 0
    for part in wire.parts():
        arrival += 1
        if isinstance(part, tuple):
            kind, step, data = part
            yield RunEvent(writer, arrival, arrival, kind, newest, step, data)
            continue
        batch = _batch(part, writer, seq, arrival)
        seq, newest = seq + batch.n, int(batch.time_ns[-1])
        yield batch


def _batch(rows: list[tuple[Any, ...]], writer: Writer, seq: int, arrival: int) -> RecordBatch:
    steps, columns = [row[0] for row in rows], _columns(rows)
    times = [(step + 1) * STEP_NS for step in steps]
    step, t = torch.tensor(steps).numpy().tobytes(), torch.tensor(times).numpy().tobytes()
    message = Records(seq=seq, n=len(rows), step=step, t=t, cols=columns)
    valid = read_records(message, Position(writer, arrival, seq - 1, -1, 0, ()), Limits())
    assert not valid.rejected
    return valid.batch


def _columns(rows: list[tuple[Any, ...]]) -> dict[str, Column]:
    values: dict[str, dict[int, float]] = {}
    for index, (_, _, names, *given) in enumerate(rows):
        for name, value in zip(names, given, strict=True):
            values.setdefault(name, {})[index] = value
    return {
        name: Sparse(array("I", found).tobytes(), array("d", found.values()).tobytes())
        for name, found in values.items()
    }
