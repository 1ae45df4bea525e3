"""Check the connection from this machine to the server; each check has a one-sentence result."""

from __future__ import annotations

import http.client
import json
import os
import platform
import shlex
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import protocol
from ..core.process_state import is_disabled
from ..core.run_fields import host_of
from ..spool.segments import FORMAT, Header, Spool, default_dir, find_spools
from ..transport.connection import Address, Connection, ConnectionLostError, resolve
from ..transport.link import wait
from ..transport.outbox import Outbox
from ..transport.server_url import PORT, Target, parse_target

CREATE = "tocsin-server token create trainers --scope ingest"
IN_MEMORY = (
    "undelivered records are kept in memory only (4 MiB). Set TOCSIN_SPOOL_DIR to a writable directory"
)
DISABLED = "TOCSIN_DISABLE is set: no run reports anything. Unset it: `unset TOCSIN_DISABLE`"
TIMEOUT_S = 5.0
HEALTH = "/api/v1/health"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Check:
    """Result of one check. ``ok`` is None if it is only information."""

    name: str
    ok: bool | None
    text: str


def examine(url: str, token: str, project: str, spool_dir: Path) -> Iterator[Check]:
    """Run all checks. If one fails on the way to the server, those that depend on it are skipped.

    Args:
        url: Address of the server.
        token: Token for the server, or empty.
        project: Project that the token must be valid for.
        spool_dir: Directory that must be writable.
    """
    yield _hook()
    yield from _path_checks(url, token, project)
    yield _spool(spool_dir)
    yield from _torch()


def _hook() -> Check:
    versions = f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {metadata.version(name)}" for name in ("websockets", "msgspec")
    )
    if is_disabled():
        return Check("hook", False, f"{DISABLED} ({versions})")
    return Check("hook", True, versions)


def _path_checks(url: str, token: str, project: str) -> Iterator[Check]:
    """Check address, name, connection, health and handshake; each needs the one before."""
    try:
        target = parse_target(url)
    except ValueError as error:
        yield Check("address", False, str(error))
        return
    yield Check("address", True, target.base)
    try:
        addresses = resolve(target)
    except ConnectionLostError as error:
        yield Check("name", False, str(error))
        return
    yield Check("name", True, f"{target.host} is {', '.join(sorted({str(a[1][0]) for a in addresses}))}")
    steps = (
        partial(_tcp, target),
        partial(_health, target),
        partial(_hello, target, addresses, token, project),
    )
    for step in steps:
        found = step()
        yield found
        if found.ok is False:
            return


def _tcp(target: Target) -> Check:
    started = time.monotonic()
    try:
        socket.create_connection((target.host, target.port), TIMEOUT_S).close()
    except OSError as error:
        detail = f"cannot connect to {target.host} port {target.port} ({error}). {_start_advice(target)}"
        return Check("connection", False, detail)
    took_ms = 1e3 * (time.monotonic() - started)
    return Check("connection", True, f"port {target.port} answers in {took_ms:.1f} ms")


def _start_advice(target: Target) -> str:
    port = "" if target.port == PORT else f" --port {target.port}"
    if target.host in LOOPBACK:
        return f"Start a server here with `tocsin-server serve{port}`, or set TOCSIN_URL to another server."
    return f"Is the server running there, as `tocsin-server serve --host 0.0.0.0{port}`, and the port open?"


def _health(target: Target) -> Check:
    try:
        status, body = _get(target, HEALTH)
    except (OSError, http.client.HTTPException) as error:
        return Check("server", False, f"no HTTP response from this address: {error!r}. Is it a web server?")
    try:
        answer = json.loads(body)
        status_text, version = answer["status"], answer["version"]
    except (ValueError, KeyError, TypeError):
        place = f"{target.base}{HEALTH}"
        detail = f"{place} is not tocsin's health page (HTTP {status}). Is it another service?"
        return Check("server", False, detail)
    says = f"tocsin-server {version} reports status {status_text}"
    if status_text == "ok":
        return Check("server", True, says)
    return Check("server", False, f"{says}: it cannot store records at present. Its log says why.")


def _get(target: Target, path: str) -> tuple[int, bytes]:
    connection = (
        http.client.HTTPSConnection(
            target.host, target.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
        )
        if target.secure
        else http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_S)
    )
    try:
        connection.request("GET", target.prefix + path)
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 16)
    finally:
        connection.close()


def _hello(target: Target, addresses: list[Address], token: str, project: str) -> Check:
    """Send a handshake with rank -1, which the server rejects only after it has accepted version and token.

    No run is created.
    """
    try:
        answer = ask(target, addresses, probe(token, project))
    except ConnectionLostError as error:
        return Check("handshake", False, f"the WebSocket could not be opened: {error}")
    if answer is None:
        return Check("handshake", False, f"no response within {TIMEOUT_S:g} s")
    if isinstance(answer, protocol.Refused) and answer.code != "bad-hello":
        return Check("handshake", False, _advice(answer, token))
    says = f"protocol version {protocol.VERSION}, and the token may report to project {project!r}"
    return Check("handshake", True, says)


def _advice(refused: protocol.Refused, token: str) -> str:
    sentence = f"rejected ({refused.code}): expected {refused.expected}, got {refused.got}."
    if refused.code == "protocol-version":
        return f"{sentence} Update the older side (pip install -U tocsin, or the server)."
    if refused.code in ("bad-token", "token-scope"):
        hint = "Check TOCSIN_TOKEN" if token else "Set TOCSIN_TOKEN"
        is_scope = refused.code == "token-scope"
        other = " Pass --project to check a token of another project." if is_scope else ""
        create = f"`{CREATE}` creates one for training; pass it the --data-dir or --config of the server."
        return f"{sentence} {hint}.{other} On the server, {create}"
    return sentence


def probe(token: str, project: str) -> protocol.Hello:
    """Return a handshake that no server accepts as a run."""
    writer = protocol.WriterId("doctor", -1, "doctor", os.getpid(), time.time_ns())
    return protocol.Hello(
        protocol.VERSION, token, project, "doctor", "", writer, 1, host_of(), time.time_ns()
    )


def ask(
    target: Target,
    addresses: list[Address],
    hello: protocol.Hello,
    clock: Callable[[], float] = time.monotonic,
) -> protocol.ServerMessage | None:
    """Return the first response to a handshake, or None after 5 s.

    Raises:
        ConnectionLostError: The connection was lost before a response.
    """
    connection = Connection(target, addresses, clock())
    deadline, asked = clock() + TIMEOUT_S, False
    try:
        while clock() < deadline:
            if connection.open and not asked:
                asked = True
                connection.send(protocol.encode(hello))
            try:
                messages, _ = connection.pump(clock())
            except ConnectionLostError as gone:
                if not gone.messages:
                    raise
                messages = list(gone.messages)
            if messages:
                return protocol.decode_server(messages[0])
            if not connection.open or asked:
                wait([connection], 0.1)
        return None
    except protocol.ProtocolError as error:
        raise ConnectionLostError(str(error)) from error
    finally:
        connection.close()


def _spool(root: Path) -> Check:
    hello = probe("", "doctor")
    spool = Spool(root, lambda: Header(FORMAT, "", hello))
    try:
        works = spool.append(1, memoryview(b""))
    finally:
        spool.delete()
    if not works:
        return Check("spool", False, f"{spool.error}; {IN_MEMORY}")
    waiting = len(list(find_spools(root)))
    says = f"{root} is writable"
    if waiting:
        sync = "tocsin sync" if root == default_dir() else f"tocsin sync {shlex.quote(str(root))}"
        says += f"; undelivered runs: {waiting}. `{sync}` delivers those whose process has ended"
        return Check("spool", None, says)
    return Check("spool", True, says)


def _torch() -> Iterator[Check]:
    try:
        import torch
    except Exception as error:
        yield Check("torch", None, f"not importable here ({error}); tocsin.log and run.step work without it")
        return
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    yield Check("torch", True, f"{torch.__version__}, {device}")
    yield _signals()


def _signals() -> Check:
    """Attach capture as a run does, and detach it again."""
    from .. import capture
    from ..api.reporter import RunReporter

    ledger = capture.Ledger(RunReporter(Outbox(), _Nowhere()))
    try:
        signals = capture.attach(ledger)
    finally:
        capture.detach(ledger)
    missing = [f"{name} ({state})" for name, state in signals.items() if state != "ok"]
    if missing:
        return Check("signals", False, f"not found in this version of torch: {', '.join(missing)}")
    return Check("signals", True, ", ".join(signals))


class _Nowhere:
    """Transport of a run that reports nothing."""

    def start(self) -> None:
        """Do nothing."""

    def close(self, *, state: str = "finished", error: dict[str, Any] | None = None) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""
