"""Convert an object or a table row to a Row: find step, epoch, time, rank and values by the field names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .items import Row
from .names import alias, normal
from .values import is_null, nanoseconds, number

STEP = (
    "global_step", "current_steps", "current_step", "cur_step", "current_iter", "iter_num", "train_step",
    "train_steps", "optimizer_step", "_step", "step", "steps", "iteration", "iter", "num_updates", "update",
    "updates", "trainer/global_step", "train/global_step", "total_steps", "global_steps",
    "iteration_number", "it",
)  # fmt: skip
BATCH = ("batch", "batch_idx", "batch_index", "batch_id", "iter_in_epoch", "step_in_epoch")
EPOCH = ("epoch", "epochs", "train/epoch", "epoch_num", "current_epoch")
TIME_NS = ("time_ns",)
TIME_S = ("timestamp", "_timestamp", "unix_time", "wall_time", "walltime", "created_at_s")
LEFT = {
    "eta", "eta_seconds", "memory", "mem", "_runtime", "rank", "attempt", "seq", "writer", "time_ms",
    "total_flos", "remaining_time", "elapsed_time", "mode", "preemption_count", "_wandb",
}  # fmt: skip
DEPTH = 3


def flat(fields: Mapping[str, Any], prefix: str = "", depth: int = DEPTH) -> dict[str, Any]:
    """Return ``{"train": {"loss": 1}}`` as ``{"train/loss": 1}``. Lists, and levels below ``DEPTH``, are
    omitted.
    """
    found: dict[str, Any] = {}
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth > 1:
                found.update(flat(value, f"{name}/", depth - 1))
        elif not isinstance(value, (list, tuple)):
            found[name] = value
    return found


def is_training(row: Row) -> bool:
    """Return whether a row is a record of a training: it has a number, and a step, an epoch or a loss."""
    names = (*row.values, *row.null)
    return bool(names) and (row.is_placed or any(map(is_signal, names)))


def is_signal(name: str) -> bool:
    """Return whether a name is that of a loss or a gradient norm, which only trainings have."""
    return "loss" in name.lower() or (alias(name) or ("",))[0] == "grad_norm"


class Fields:
    """Cache the role of each field name, so that wide tables are read quickly."""

    def __init__(self) -> None:
        self._role: dict[str, str] = {}

    def row(self, fields: Mapping[str, Any], line: int) -> Row:
        """Return the row of these fields, which have the file's names."""
        row = Row(line, {})
        nulls: list[str] = []
        best = len(STEP)
        for name, value in fields.items():
            role = self._role.get(name) or self._meet(name)
            if role == "value":
                _put(row, nulls, name, value)
            elif role == "step":
                rank = _rank(STEP, name)
                known = number(value)
                if known is not None and math.isfinite(known) and rank < best:
                    row.step, best = known, rank
            elif role != "left":
                _place(row, role, value)
        row.null = tuple(nulls)
        return row

    def _meet(self, name: str) -> str:
        if len(self._role) > 4096:
            self._role.clear()
        self._role[name] = role = role_of(name)
        return role


def role_of(name: str) -> str:
    """Return the role of a field: step, iteration, epoch, time_ns, time_s, rank, attempt, left (ignored) or
    value.
    """
    plain = normal(name)
    for role, names in (("step", STEP), ("iteration", BATCH), ("epoch", EPOCH)):
        if plain in names or name in names:
            return role
    if plain in TIME_NS:
        return "time_ns"
    if plain in TIME_S:
        return "time_s"
    if plain in ("rank", "attempt"):
        return plain
    return "left" if plain in LEFT else "value"


def _rank(names: tuple[str, ...], name: str) -> int:
    plain = normal(name)
    return names.index(plain) if plain in names else names.index(name)


def _put(row: Row, nulls: list[str], name: str, value: Any) -> None:
    known = number(value)
    if known is not None:
        row.values[name] = known
    elif is_null(value):
        nulls.append(name)


def _place(row: Row, role: str, value: Any) -> None:
    known = number(value)
    if known is None or not math.isfinite(known):
        return
    if role == "time_ns":
        exact = int(value) if isinstance(value, (int, str)) and str(value).isdecimal() else int(known)
        row.time_ns = exact if 0 <= exact < 1 << 63 else None
    elif role == "time_s":
        row.time_ns = nanoseconds(known)
    elif role in ("rank", "attempt"):
        setattr(row, role, int(known))
    else:
        setattr(row, role, known)
