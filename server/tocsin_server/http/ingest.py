"""Serve the clients' WebSocket: the server side of docs/internals/protocol.md.

Each connection has one task that reads, and small ones that send acks and alerts and detect silence. Whatever
a client sends, it cannot crash the server or affect the records of other clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from tocsin import protocol
from tocsin.protocol import Ack, Alert, Hello, ProtocolError, Refused, Welcome
from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import AlertState, Transition, Writer
from tocsin_server.core.permissions import Identity
from tocsin_server.http.connections import HELD
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.admission import TryLaterError
from tocsin_server.runs.client_requests import ACTIONS
from tocsin_server.runs.client_requests import KIND as ACTION
from tocsin_server.runs.pipeline import Admitted, UnknownWriterError
from tocsin_server.runs.rate_limit import RateLimit
from tocsin_server.runs.validation.frames import read_outline
from tocsin_server.runs.validation.handshake import (
    SealedHandshake,
    read_handshake,
    read_sealed,
    without_parts,
)
from tocsin_server.runs.validation.names import shown
from tocsin_server.store.registration import ForeignRunError, Registered

log = logging.getLogger("tocsin.ingest")
router = APIRouter()

BAD_HELLO, BAD_TOKEN, BAD_SCOPE, LATER, SILENT = 4400, 4401, 4403, 4503, 4408
"""Close codes (docs/internals/protocol.md)."""
FAULTS = 3
"""Number of consecutive malformed frames that close a connection."""
SILENCE_S = 30.0
"""Clients send ``alive`` every 5 s. After this long without a message, the client counts as gone, even if the
TCP connection is open."""
LOOK_S = 5.0


class Closing(Exception):  # noqa: N818 - control flow, not an error
    """Raised to close the connection with a code, after sending a rejection if there is one."""

    def __init__(self, code: int, refusal: Refused | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.refusal = refusal


@router.websocket(protocol.PATH)
async def ingest(websocket: WebSocket) -> None:
    """Serve one client from handshake to disconnect."""
    services = services_of(websocket)
    if not services.gate.same_origin(websocket):
        await websocket.close(1008)  # a page of another site must not write with the user's cookie
        return
    await websocket.accept()
    client = WriterConnection(websocket, services)
    try:
        await client.converse()
    except Closing as closing:
        await client.close(closing)
    except WebSocketDisconnect:
        pass
    except UnknownWriterError as error:
        refusal = Refused("connection", "try-later", "a known writer", str(error), retry=True)
        await client.close(Closing(LATER, refusal))


class WriterConnection:
    """One connection of a training process."""

    def __init__(self, websocket: WebSocket, services: Services) -> None:
        self._websocket = websocket
        self._services = services
        self._pipeline = services.pipeline
        self._limits = services.pipeline.limits
        self._sending = asyncio.Lock()
        self._ack_due = asyncio.Event()
        self._rejections = 0
        self._received_at = time.monotonic()
        self._welcomed = False
        self._held_up = False
        """Whether the server has paused reading."""
        self._silent_s = 0.0
        """How long the client had been silent when the server closed the connection."""

    async def converse(self) -> None:
        """Do the handshake, then process records until either side closes. Raises :class:`Closing`."""
        hello, admitted, reported, identity = await self._handshake()
        pressure = self._pipeline.pressure
        pressure.joined(admitted.writer.run_id)
        try:
            if not self._welcomed:
                await self._welcome(hello, admitted, reported)
            await self._serve(hello, admitted.writer, identity)
        finally:
            pressure.left(admitted.writer.run_id)
            self._pipeline.disconnected(admitted.writer, silent_s=self._silent_s)

    # Handshake

    async def _handshake(self) -> tuple[Hello, Admitted, list[Refused], Identity]:
        """Return the validated handshake, its writer, the rejections to report, and the identity of the
        sender.

        The configuration is decoded only after authentication, and dropped once it is stored.

        Raises:
            Closing: The handshake cannot be accepted.
        """
        sealed = await self._sealed_handshake()
        identity = await self._identified(sealed)
        async with self._pipeline.handshakes.turn() as turn:
            try:
                hello, reported = read_handshake(sealed, self._limits)
            except ProtocolError as error:
                raise _no_handshake(error) from error
            if any(refusal.scope == "connection" for refusal in reported):
                raise Closing(BAD_HELLO, reported[0])
            turn.hold(size_of(hello))
            admitted = await self._admitted(hello, identity, reported)
            return without_parts(hello), admitted, reported, identity

    async def _sealed_handshake(self) -> SealedHandshake:
        limit_s = self._services.settings.handshake_timeout_s
        try:
            frame = await asyncio.wait_for(self._frame(), limit_s)
        except TimeoutError:
            refusal = Refused("connection", "try-later", f"hello within {limit_s:g} s", "nothing", retry=True)
            raise Closing(LATER, refusal) from None
        if len(frame) > self._limits.frame_bytes + self._limits.config_bytes:
            raise _bad_handshake(
                f"a frame of at most {self._limits.frame_bytes} bytes", f"{len(frame)} bytes"
            )
        return _decoded_handshake(frame)

    async def _identified(self, hello: Hello) -> Identity:
        gate = self._services.gate
        if hello.token:
            known = gate.check_token(hello.token, ask=False)
            identity = known or await asyncio.to_thread(gate.check_token, hello.token)
        else:
            identity = await asyncio.to_thread(gate.session_of, self._websocket)
        if identity is None:
            got = "a token that is unknown or revoked" if hello.token else "no token"
            raise Closing(BAD_TOKEN, Refused("connection", "bad-token", "a valid ingest token", got))
        if not identity.may_ingest(hello.project):
            got = f"one for {shown(identity.project) if identity.project else identity.scope.value}"
            expected = f"a token that may report to project {shown(hello.project)}"
            raise Closing(BAD_SCOPE, Refused("connection", "token-scope", expected, got))
        return identity

    async def _admitted(self, hello: Hello, identity: Identity, reported: list[Refused]) -> Admitted:
        async def welcome(registered: Registered) -> None:
            """Answer before the run is loaded: after a start, that can take longer than clients wait."""
            known = Admitted(registered.writer, registered.last_seq, registered.last_event)
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._welcome(hello, known, reported)

        try:
            return await self._pipeline.open(hello, bound_to=identity.project, waits=welcome)
        except ForeignRunError as error:
            expected = f"a run of project {shown(identity.project)}, the only one that the token may write to"
            refusal = Refused("connection", "token-scope", expected, "a run of another project")
            raise Closing(BAD_SCOPE, refusal) from error
        except TryLaterError as error:
            refusal = Refused("connection", "try-later", error.expected, error.got, retry=True)
            raise Closing(LATER, refusal) from error

    async def _welcome(self, hello: Hello, admitted: Admitted, reported: list[Refused]) -> None:
        writer = admitted.writer
        welcome = Welcome(
            version=protocol.agree(hello.version, hello.oldest_version),
            run=writer.run_id,
            attempt=writer.attempt_no,
            seq=admitted.seq,
            events=admitted.events,
            flush_ms=self._pipeline.pressure.flush_ms(writer.run_id),
            limits=self._limits.as_message(),
        )
        self._welcomed = True
        await self._send(welcome)
        await self._reject_with(reported)

    # Records

    async def _serve(self, hello: Hello, writer: Writer, identity: Identity) -> None:
        """Read until the client disconnects, and send acks and alerts concurrently."""
        self._received_at = time.monotonic()
        beside: list[Coroutine[Any, Any, None]] = [
            self._send_acks(writer),
            self._check_silence(),
            self._check_token(identity),
        ]
        if "alerts" in hello.wants:
            beside.append(self._send_alerts(writer.run_id))
        if not frozenset(ACTIONS).isdisjoint(hello.wants):
            beside.append(self._send_requests(hello, writer))
        await _first_of(self._read(writer), *beside)

    async def _read(self, writer: Writer) -> None:
        rate_limit = RateLimit(self._limits.records_per_s, time.monotonic())
        while True:
            frame = await self._frame()
            # Checked after a frame was read: hundreds of clients may wait for a frame at the same time, and
            # each would add its own to a backlog that was not full when it began to wait.
            self._held_up = True
            await self._pipeline.pressure.wait()
            await self._pipeline.share.turn()
            self._received_at = time.monotonic()
            records = await self._take(writer, frame)
            delay_s = rate_limit.delay(records, self._received_at) if records else 0.0
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            self._held_up, self._received_at = False, time.monotonic()

    async def _take(self, writer: Writer, frame: bytes) -> int:
        """Pass one frame to the pipeline; return its weight in records."""
        try:
            accepted = self._pipeline.accept(writer, frame, self._ack_due.set)
        except ProtocolError as error:
            await self._malformed(Refused("connection", error.code, error.expected, error.got))
            return 0
        self._rejections = 0
        await self._reject_with(accepted.refused)
        if accepted.event is not None and accepted.event.kind == ACTION:
            self._services.requests.answered(writer, accepted.event.data)
        return accepted.weight

    async def _malformed(self, refusal: Refused) -> None:
        self._rejections += 1
        if self._rejections >= FAULTS:
            raise Closing(BAD_HELLO, refusal)
        await self._reject_with([refusal])

    # Sending

    async def _send_acks(self, writer: Writer) -> None:
        """Send cumulative acks: one for everything that became durable while the last one was sent."""
        while True:
            await self._ack_due.wait()
            self._ack_due.clear()
            seq, events = self._pipeline.durable(writer)
            flush_ms = self._pipeline.pressure.flush_ms(writer.run_id)
            await self._send(Ack(seq=seq, events=events, flush_ms=flush_ms))

    async def _send_alerts(self, run_id: str) -> None:
        with self._services.hub.listen(run_id) as listener:
            while True:
                await listener.wait()
                listener.take_dirty()
                for transition in listener.take_alerts():
                    if transition.first and transition.alert.state is not AlertState.PENDING:
                        await self._send(alert_message(transition))

    async def _send_requests(self, hello: Hello, writer: Writer) -> None:
        """Send the requests that an alert of the run causes to a client that opted in."""
        requests, hub = self._services.requests, self._services.hub
        with (
            hub.listen(writer.run_id) as listener,
            requests.joined(writer, hello, listener.wake) as participant,
        ):
            while True:
                await listener.wait()
                listener.take_dirty()
                for transition in listener.take_alerts():
                    requests.alert(transition)
                for request in participant.drain():
                    await self._send(request)

    def _held_back(self) -> bool:
        """Return whether the server has paused reading this client, so that its silence means nothing."""
        held = self._websocket.scope.get("extensions", {}).get(HELD)
        return self._held_up or (held is not None and held())

    async def _check_silence(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            silent_s = time.monotonic() - self._received_at
            if self._held_back():
                self._received_at = time.monotonic()
            elif silent_s > SILENCE_S:
                self._silent_s = silent_s
                got = f"nothing for {SILENCE_S:g} s"
                raise Closing(SILENT, Refused("connection", "silence", "alive every 5 s", got, retry=True))

    async def _check_token(self, identity: Identity) -> None:
        """Raise :class:`Closing` once the token is revoked, so that open connections cannot keep writing."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._services.gate.still_valid(identity):
                got = "a token that was revoked"
                raise Closing(BAD_TOKEN, Refused("connection", "bad-token", "a valid ingest token", got))

    async def _reject_with(self, rejected: Sequence[Refused]) -> None:
        for refusal in rejected:
            await self._send(refusal)

    async def _send(self, message: protocol.ServerMessage) -> None:
        """Send a message, unless the peer has closed: what it sent before is still read, up to the close."""
        async with self._sending:
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._websocket.send_bytes(protocol.encode(message))

    async def _frame(self) -> bytes:
        """Return the next frame; text counts as bytes. Raises WebSocketDisconnect."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        body = message.get("bytes")
        return body if body is not None else (message.get("text") or "").encode()

    async def close(self, closing: Closing) -> None:
        """Send the rejection and close; do nothing if the peer has disconnected already."""
        if closing.refusal is not None:
            await self._send(closing.refusal)
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._websocket.close(closing.code)


def _bad_handshake(expected: str, got: str) -> Closing:
    return Closing(BAD_HELLO, Refused("connection", "bad-hello", expected, got))


def _no_handshake(error: ProtocolError) -> Closing:
    return Closing(BAD_HELLO, Refused("connection", error.code, error.expected, error.got))


def _decoded_handshake(frame: bytes) -> SealedHandshake:
    try:
        kind = read_outline(frame).type
        if kind in ("records", "event", "alive", "finish"):
            raise _bad_handshake("hello as the first message", kind)
        hello = read_sealed(frame)
        protocol.agree(hello.version, hello.oldest_version)
        return hello
    except ProtocolError as error:
        raise _no_handshake(error) from error


def alert_message(transition: Transition) -> Alert:
    """Return the message about an alert for a client."""
    alert = transition.alert
    remedies = alert.diagnosis.remedies
    return Alert(
        id=alert.id,
        rule=alert.rule,
        severity=alert.severity.value,
        state=alert.state.value,
        summary=alert.summary,
        onset_step=alert.onset_step,
        fired_step=alert.fired_step,
        remedy=remedies[0].text if remedies else "",
        incident=alert.incident_id,
    )


async def _first_of(*parts: Coroutine[Any, Any, None]) -> None:
    """Run ``parts`` concurrently until one ends; cancel the others, and raise its exception if any."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    raised = [result for result in results if isinstance(result, Exception)]
    if raised:
        raise raised[0]
