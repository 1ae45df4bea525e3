"""``tocsin sync``: upload the spools of dead processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..core.values import counted
from ..spool.segments import Header, Spool, find_spools, read_header
from ..transport.connection import resolve
from ..transport.link import wait
from ..transport.server_url import parse_target
from ..transport.spool_recovery import SpoolDelivery


@dataclass(frozen=True)
class Outcome:
    """Result for one spool. ``delivered`` is None if its run is still alive."""

    path: Path
    delivered: bool | None
    text: str


def sync(
    root: Path,
    *,
    url: str | None,
    token: str,
    timeout_s: float,
    advance: Callable[[int], object] = lambda _records: None,
) -> Iterator[Outcome]:
    """Deliver every spool in ``root``.

    Args:
        root: The spool directory.
        url: The server; default: the one that each run reported to.
        token: A token of that server.
        timeout_s: Time without progress after which a spool is skipped.
        advance: Called with the number of records that were delivered since the last call.
    """
    for path in find_spools(root):
        try:
            header = read_header(path)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            yield Outcome(path, False, f"{path}: its header cannot be read: {error}")
            continue
        spool = Spool.recover(path)
        if spool is None:
            yield Outcome(path, None, f"{_run(header)}: skipped: still being written or delivered")
            continue
        yield _deliver(spool, header, url or header.url, token, timeout_s, advance)


def _deliver(
    spool: Spool,
    header: Header,
    url: str,
    token: str,
    timeout_s: float,
    advance: Callable[[int], object],
) -> Outcome:
    assert spool.path is not None
    path = spool.path
    try:
        target = parse_target(url)
    except ValueError as error:
        spool.close()
        return Outcome(path, False, f"{_run(header)}: {error}")
    delivery = SpoolDelivery(spool, target, token, random=random.random, resolve=resolve)
    try:
        reason = _push(delivery, timeout_s, advance)
    finally:
        delivery.end()
    if reason is not None:
        why = reason.removeprefix(f"{target.base}: ")
        return Outcome(path, False, f"{_run(header)}: not delivered to {target.base}: {why}")
    missing = delivery.backlog.missing
    count = counted(delivery.backlog.seq + 1 - missing, "record")
    lost = f", {missing} missing from the buffer" if missing else ""
    torn = f", {spool.torn_bytes} damaged bytes left out" if spool.torn_bytes else ""
    return Outcome(path, True, f"{_run(header)}: {count} delivered to {target.base}{lost}{torn}")


def _push(delivery: SpoolDelivery, timeout_s: float, advance: Callable[[int], object]) -> str | None:
    """Send until everything is acknowledged; return None, or why it failed."""
    session, backlog = delivery.session, delivery.backlog
    progress, give_up_at = (-2, -2), 0.0
    while not delivery.delivered:
        now = time.monotonic()
        if (backlog.seq, backlog.events) != progress:
            advance(max(backlog.seq - max(progress[0], -1), 0))
            progress, give_up_at = (backlog.seq, backlog.events), now + timeout_s
        delivery.link.step(now)
        if session.stopped or now >= give_up_at:
            return session.refusal or session.last_error or "the server acknowledged no records"
        wake = min(delivery.link.wake_at(now), give_up_at, now + 0.2)
        if not delivery.delivered:
            wait([delivery.link.connection], max(0.0, wake - now))
    return None


def _run(header: Header) -> str:
    hello = header.hello
    return f"{hello.project}/{hello.name or hello.run} rank {hello.writer.rank}"
