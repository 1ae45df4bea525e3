"""Values of series as the API returns them."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .api import Api, named


@dataclass(frozen=True)
class Bucket:
    """One record, or a bucket of them: first and last step, finite extremes and mean, last value, counts."""

    first: int
    last: int
    low: float | None
    high: float | None
    mean: float | None
    end: float
    nan: int
    pinf: int
    ninf: int


async def series_of(
    api: Api,
    run: str,
    names: Sequence[str],
    *,
    buckets: int,
    first_step: int | None = None,
    last_step: int | None = None,
) -> dict[str, Any]:
    """Return the answer of ``GET /runs/{id}/series``."""
    # A parameter that is repeated is not split at commas; a second, empty one is ignored.
    query: dict[str, Any] = {"names": [*names, ""], "buckets": buckets}
    query |= {"from": first_step} if first_step is not None else {}
    query |= {"to": last_step} if last_step is not None else {}
    return dict(await api.get(f"/runs/{named(run)}/series", query))


def buckets_of(layer: Mapping[str, Any]) -> list[Bucket]:
    """Return the rows of one attempt and rank."""
    low, high, mean, last = ("first",) * 4 if layer["exact"] else ("min", "max", "mean", "last")
    names = ("x", "x1", low, high, mean, last, "nan", "pinf", "ninf")
    return [
        Bucket(int(a), int(b), _finite(c), _finite(d), _finite(e), f, int(g), int(h), int(i))
        for a, b, c, d, e, f, g, h, i in zip(*(values_of(layer[name]) for name in names), strict=True)
    ]


def values_of(packed: Mapping[str, str]) -> tuple[float, ...]:
    """Return the numbers of an array of the API."""
    data = base64.b64decode(packed["bdata"])
    return struct.unpack(f"<{len(data) // 8}d", data)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
