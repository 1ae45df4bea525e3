"""Uploads the spools that dead processes left behind: ``tocsin sync``."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..spool.segments import Header, Spool, find_spools, read_header
from ..transport.connection import resolve
from ..transport.link import wait
from ..transport.server_url import parse_target
from ..transport.spool_recovery import SpoolDelivery


@dataclass(frozen=True)
class Outcome:
    """What became of one spool: ``delivered`` is None where its run is still alive."""

    path: Path
    delivered: bool | None
    says: str


def sync(root: Path, *, url: str | None, token: str, timeout_s: float) -> Iterator[Outcome]:
    """Delivers every spool under ``root`` to ``url``, or to the server it was meant for.

    ``timeout_s``: how long to wait without any progress before a spool is left for later.
    """
    for path in find_spools(root):
        try:
            header = read_header(path)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            yield Outcome(path, False, f"its header is not readable: {error}")
            continue
        spool = Spool.recover(path)
        if spool is None:
            yield Outcome(path, None, f"{_run(header)}: still being written or delivered, left alone")
            continue
        yield _deliver(spool, header, url or header.url, token, timeout_s)


def _deliver(spool: Spool, header: Header, url: str, token: str, timeout_s: float) -> Outcome:
    assert spool.path is not None
    path = spool.path
    try:
        target = parse_target(url)
    except ValueError as error:
        spool.close()
        return Outcome(path, False, str(error))
    delivery = SpoolDelivery(spool, target, token, random=random.random, resolve=resolve)
    try:
        reason = _push(delivery, timeout_s)
    finally:
        delivery.end()
    if reason is not None:
        return Outcome(path, False, f"{_run(header)}: not delivered to {target.base}: {reason}")
    torn = f", {spool.torn_bytes} damaged bytes left out" if spool.torn_bytes else ""
    return Outcome(
        path, True, f"{_run(header)}: {delivery.backlog.seq + 1} records are on {target.base}{torn}"
    )


def _push(delivery: SpoolDelivery, timeout_s: float) -> str | None:
    """Until all is acknowledged (None), or the reason why it is not."""
    session, backlog = delivery.session, delivery.backlog
    progress, give_up_at = (-2, -2), 0.0
    while not delivery.delivered:
        now = time.monotonic()
        if (backlog.seq, backlog.events) != progress:
            progress, give_up_at = (backlog.seq, backlog.events), now + timeout_s
        delivery.link.step(now)
        if session.stopped or now >= give_up_at:
            return session.refusal or session.last_error or "the server acknowledged nothing"
        wake = min(delivery.link.wake_at(now), give_up_at, now + 0.2)
        if not delivery.delivered:
            wait([delivery.link.connection], max(0.0, wake - now))
    return None


def _run(header: Header) -> str:
    hello = header.hello
    return f"{hello.project}/{hello.name or hello.run} rank {hello.writer.rank}"
