"""The folder of an exported run: its files, their structure, and validation errors.

``run.json`` describes the run and is written last: a folder without it is an incomplete
export. ``records.jsonl``, ``events.jsonl`` and ``alerts.jsonl`` contain the data;
``acks.jsonl`` belongs to the alerts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin_server.core import exact_json
from tocsin_server.core.errors import TocsinError

VERSION = 1
FORMAT = "jsonl"
"""Format of the records: exact, and every server can read it."""
RUN, EVENTS, ALERTS, RECORDS = "run.json", "events.jsonl", "alerts.jsonl", "records.jsonl"
ACKS = "acks.jsonl"
"""Acknowledgements of the run's alerts. Folders of earlier versions have none."""

Item = dict[str, Any]


class BundleError(TocsinError):
    """A folder cannot be imported or written: file and line, what was expected, what was found."""

    def __init__(self, place: str, expected: str, got: object) -> None:
        super().__init__(f"{place}: expected {expected}, got {got}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """``run.json``: the run's row, attempts, writers and series, and a digest of the data."""

    run: Item
    attempts: list[Item]
    writers: list[Item]
    series: list[str]
    rule_state: Item | None
    counts: dict[str, int]
    digest: str

    @property
    def run_id(self) -> str:
        return str(self.run["id"])


_SHAPES: dict[str, type | tuple[type, ...]] = {
    "run": dict,
    "attempts": list,
    "writers": list,
    "series": list,
    "rule_state": (dict, type(None)),
    "counts": dict,
    "digest": str,
}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``run.json`` atomically."""
    reported = {"version": VERSION, "format": FORMAT}
    reported |= {name: getattr(manifest, name) for name in _SHAPES}
    part = folder / f"{RUN}.part"
    text = json.dumps(exact_json.plain(reported), ensure_ascii=False, indent=1, allow_nan=False)
    part.write_text(text + "\n", "utf-8", errors="replace")
    part.replace(folder / RUN)


def read_manifest(folder: Path) -> Manifest:
    """Read and validate ``run.json``.

    Raises:
        BundleError: The file is missing or malformed.
    """
    path = folder / RUN
    try:
        reported = _storable(str(path), exact_json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise BundleError(str(folder), f"{RUN}, which an export writes last", "no such file") from None
    except ValueError as error:
        raise BundleError(str(path), "JSON", str(error)) from error
    if not isinstance(reported, dict) or reported.get("version") != VERSION:
        got = reported.get("version") if isinstance(reported, dict) else type(reported).__name__
        raise BundleError(str(path), f"an export of version {VERSION}", repr(got))
    for name, kind in _SHAPES.items():
        if not isinstance(reported.get(name), kind):
            raise BundleError(f"{path}: {name}", _called(kind), repr(reported.get(name))[:200])
    if reported.get("format") != FORMAT:
        raise TocsinError(
            f"{path}: the records of this export are {str(reported.get('format'))[:200]!r}, and only"
            f" {FORMAT!r} can be imported. Export the run again with `tocsin-server export --out`."
        )
    return Manifest(**{name: reported[name] for name in _SHAPES})


def _called(kind: type | tuple[type, ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = {dict: "an object", list: "a list", str: "text", type(None): "null"}
    return " or ".join(names[each] for each in kinds)


def lines(path: Path) -> Iterator[tuple[int, Item]]:
    """Yield line numbers from 1 and objects of a JSON lines file.

    Raises:
        BundleError: The file is missing or malformed.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield number, _object(path, number, line)
    except FileNotFoundError:
        raise BundleError(str(path), "a file", "none") from None
    except UnicodeDecodeError as error:
        raise BundleError(str(path), "UTF-8", str(error)) from error


def _object(path: Path, number: int, line: str) -> Item:
    try:
        item = exact_json.loads(line)
    except ValueError as error:
        raise BundleError(f"{path}:{number}", "JSON", str(error)) from error
    if not isinstance(item, dict):
        raise BundleError(f"{path}:{number}", "an object", type(item).__name__)
    _storable(f"{path}:{number}", item)
    return item


def _storable(where: str, value: Any) -> Any:
    """Return ``value``.

    Raises:
        BundleError: ``value`` cannot be stored.
    """
    wrong = exact_json.problem(value)
    if wrong is not None:
        raise BundleError(f"{where}{wrong[0][:1] and ': ' + wrong[0][1:]}", wrong[1], "another value")
    return value


def bundles_in(path: Path) -> list[Path]:
    """Return ``path`` if it is the folder of a run, else the run folders in it.

    Raises:
        BundleError: There are none.
    """
    if (path / RUN).is_file():
        return [path]
    found = sorted(each.parent for each in path.glob(f"*/{RUN}"))
    if not found:
        raise BundleError(str(path), "a folder that `tocsin-server export --out` wrote", f"no {RUN} in it")
    return found
