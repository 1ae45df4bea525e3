"""Write and read incident snapshots as lines of ``snapshots.jsonl``, each with a digest.

The digest of the run does not include them: the server may store one between two exports of the same run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tocsin_server.store.connection import Connection
from tocsin_server.store.snapshots import IncidentSnapshotRow, incident_snapshot_rows, keep_incident_snapshot
from tocsin_server.transfer.run_folder import SNAPSHOTS, BundleError, Item, lines
from tocsin_server.transfer.schema import IncidentSnapshotLine, checked


def incident_snapshot_items(connection: Connection, run_id: str) -> Iterator[Item]:
    """Yield the incident snapshots of a run, one per line."""
    for row in incident_snapshot_rows(connection, run_id):
        yield {
            "fingerprint": row.fingerprint,
            "episode": row.episode,
            "made_ns": row.made_ns,
            "whole": row.whole,
            "sha256": hashlib.sha256(row.body).hexdigest(),
            "body": base64.b64encode(row.body).decode("ascii"),
        }


def read_incident_snapshots(folder: Path) -> list[IncidentSnapshotRow]:
    """Return the incident snapshots of an exported run; none if the file is missing.

    Raises:
        BundleError: A line is malformed or damaged.
    """
    path = folder / SNAPSHOTS
    if not path.is_file():
        return []
    return [_row(item, f"{path}:{number}") for number, item in lines(path)]


def _row(item: Item, place: str) -> IncidentSnapshotRow:
    checked(item, IncidentSnapshotLine, place)
    body = base64_of(item["body"], f"{place}: body")
    if hashlib.sha256(body).hexdigest() != item["sha256"]:
        raise BundleError(f"{place}: body", f"content of digest {item['sha256']}", "another")
    return IncidentSnapshotRow(item["fingerprint"], item["episode"], item["made_ns"], item["whole"], body)


def base64_of(text: str, place: str) -> bytes:
    """Return the bytes of a base64 text.

    Raises:
        BundleError: ``text`` is not base64; the error contains ``place``.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BundleError(place, "base64", str(error)) from error


def write_incident_snapshots(connection: Connection, run_id: str, rows: list[IncidentSnapshotRow]) -> None:
    """Store imported snapshots for the alerts of an existing run."""
    for row in rows:
        keep_incident_snapshot(connection, run_id, row)
