"""Find stored values that cannot be read, save a copy of them, and rebuild what the records allow."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tocsin_server.core.models import RecordBatch
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.notify.matching import parse_matchers
from tocsin_server.rules.documents import rule_of
from tocsin_server.runs.registry import metadata_of
from tocsin_server.runs.run_summary import RunMetadata, RunSummary
from tocsin_server.store import value_check
from tocsin_server.store.alert_rows import diagnosis_of
from tocsin_server.store.connection import Connection
from tocsin_server.store.damage import valid_environment
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.rules import CustomRuleRow
from tocsin_server.store.run_rows import fill_board
from tocsin_server.store.value_check import Checks, Damage, Reader

NOBODY = RunMetadata("", "", "")
"""Placeholder metadata for a summary that is only parsed as a check."""


def _board(value: Any) -> None:
    int(value["arrival"])
    RunSummary.restore(NOBODY, value)


def _facts(value: Any) -> None:
    wrong = sorted(value.keys() - valid_environment(value).keys())
    if wrong:
        raise ValueError(f"not lists and maps: {', '.join(wrong)}")


def _texts_only(value: Any) -> None:
    if not all(isinstance(one, str) for one in value):
        raise ValueError("values that are not text")


def _tuning(value: Any) -> None:
    if not all(isinstance(name, str) for name in value):
        raise ValueError("keys that are not names of settings")


READERS: Mapping[str, Reader] = {
    "run.summary": _board,
    "run.environment": _facts,
    "run.tags": _texts_only,
    "alert.diagnosis": diagnosis_of,
    "alert.labels": lambda value: _texts_only(value.values()),
    "silence.matchers": lambda value: parse_matchers(value, "matchers", least=1),
    "custom_rule.body": lambda value: rule_of(CustomRuleRow("any", value)),
    "rule_tuning.body": _tuning,
}
"""Readers of JSON columns, as used by the running server; they check more than the JSON syntax."""


DERIVED: Mapping[str, Reader] = {
    "rule_state": lambda body: Engine.restore(RunContext(), body),
}
"""Readers of the bodies of tables that the server derives from records."""


def damages(connection: Connection) -> Iterator[Damage]:
    """Yield everything that cannot be read, text values first."""
    return value_check.damages(connection, Checks(READERS, DERIVED))


def keep(file: Path, found: Iterable[Damage]) -> int:
    """Append the damaged values to a JSON lines file with mode 0600; return how many."""
    count = 0
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        for one in found:
            reported = {"table": one.table, "run": one.run_id, "key": one.key, "column": one.column}
            reported |= {"reason": one.reason, "base64": base64.b64encode(one.raw).decode("ascii")}
            out.write(json.dumps(reported) + "\n")
            count += 1
        out.flush()
        os.fsync(out.fileno())
    return count


def rebuild_summary(database: Database, run_id: str) -> bool:
    """Rebuild the summary of a run from its records; return False if there is no such run."""
    reader = StoreReader(database)
    stored = reader.run(run_id)
    if stored is None:
        return False
    summary, recovery = RunSummary(metadata_of(stored)), reader.recovery(run_id, from_start=True)
    for item in recovery.replay:
        if isinstance(item, RecordBatch):
            summary.take(item, int(item.time_ns[-1]))
        else:
            summary.note(item)
    made = {"arrival": recovery.last_arrival, **summary.saved(), "heartbeat": {}}
    with database.engine.begin() as connection:
        fill_board(connection, run_id, made)
    return True


def copy_name(folder: Path, now_s: float) -> Path:
    """Return the file for the damaged values of a repair at this time."""
    return folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now_s))}.jsonl"
