"""Write and read acknowledgements as lines of ``acks.jsonl``, each with a digest.

They record who acknowledged an alert, when and with which note. The digest of the run does not include
them, because users may acknowledge between two exports of the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from tocsin_server.store.acks import AckRow, ack_rows, put_ack_rows
from tocsin_server.store.connection import Connection
from tocsin_server.transfer.digest import canonical
from tocsin_server.transfer.run_folder import ACKS, BundleError, Item, lines
from tocsin_server.transfer.schema import AckLine, checked


def ack_items(connection: Connection, run_id: str) -> Iterator[Item]:
    """Yield every acknowledgement and withdrawal of the run, oldest first."""
    for row in ack_rows(connection, run_id):
        item: Item = {
            "fingerprint": row.fingerprint,
            "episode": row.episode,
            "at_ns": row.at_ns,
            "actor": row.actor,
            "note": row.note,
            "undone": row.undone,
        }
        yield item | {"sha256": hashlib.sha256(canonical(item)).hexdigest()}


def read_acks(folder: Path, alerts: Collection[tuple[str, int]]) -> list[AckRow]:
    """Return the acknowledgements of an exported run; none if the file is missing.

    Args:
        folder: The folder of the run.
        alerts: (fingerprint, episode) of the run's alerts.

    Raises:
        BundleError: A line is malformed, damaged, or about an unknown alert.
    """
    path = folder / ACKS
    if not path.is_file():
        return []
    return [_row(item, f"{path}:{number}", alerts) for number, item in lines(path)]


def _row(item: Item, place: str, alerts: Collection[tuple[str, int]]) -> AckRow:
    own = {name: value for name, value in checked(item, AckLine, place).items() if name != "sha256"}
    if hashlib.sha256(canonical(own)).hexdigest() != item["sha256"]:
        raise BundleError(place, f"content of digest {item['sha256']}", "another")
    if (item["fingerprint"], item["episode"]) not in alerts:
        raise BundleError(f"{place}: fingerprint", "an alert of this run", item["fingerprint"])
    return AckRow(**own)


def write_acks(connection: Connection, run_id: str, rows: list[AckRow]) -> None:
    """Store imported acknowledgements for the alerts of an existing run."""
    put_ack_rows(connection, run_id, rows)
