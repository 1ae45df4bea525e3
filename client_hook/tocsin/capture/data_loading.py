"""How long the training loop waits for its data: the time inside a DataLoader's iterator, by step.

Where a script has no DataLoader, ``run.batch`` marks the moment at which the data of the coming step are
there: the time since the record before counts. Host time only. Loading inside a phase is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from torch.utils.data import dataloader

from . import patching


def install() -> None:
    """Watches every DataLoader of the process."""
    patching.replace(dataloader._BaseDataLoaderIter, "__next__", _watch_next)


def _watch_next(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        if not patching.attached:
            return original(self)
        began = monotonic_ns()
        try:
            return original(self)
        finally:
            try:
                _waited(monotonic_ns() - began)
            except Exception as error:
                patching.trouble("data", error)

    return next_batch


def _waited(took_ns: int) -> None:
    for ledger in patching.attached:
        ledger.loads += 1
        if not ledger.reporter.phases:
            ledger.data_ns += took_ns


def marked(ledger: Any) -> None:
    """``run.batch`` was called: where no DataLoader tells, all since the newest record was waiting."""
    primary = ledger.primary
    if not ledger.loads and primary is not None and primary.began and not ledger.reporter.phases:
        ledger.data_ns = max(0, monotonic_ns() - ledger.reporter.paused_ns - primary.began)
