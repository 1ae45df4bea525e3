"""Measure how long the training loop waits for data: the time inside a DataLoader's iterator.

Without a DataLoader, the time from the previous record to ``run.batch`` counts. Host time only. Loading
inside a phase does not count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from torch.utils.data import dataloader

from . import patching


def install() -> None:
    """Watch every DataLoader of the process."""
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
                patching.report_error("data", error)

    return next_batch


def _waited(took_ns: int) -> None:
    for ledger in patching.attached:
        ledger.loads += 1
        if not ledger.reporter.phases:
            ledger.data_ns += took_ns


def marked(ledger: Any) -> None:
    """Count the time since the newest record as waiting for data, because ``run.batch`` was called without a
    DataLoader.
    """
    primary = ledger.primary
    if not ledger.loads and primary is not None and primary.began and not ledger.reporter.phases:
        ledger.data_ns = max(0, monotonic_ns() - ledger.reporter.paused_ns - primary.began)
