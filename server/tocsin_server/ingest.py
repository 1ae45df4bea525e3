"""The trainers' websocket: docs/protocol.md, the server's side.

One connection is one task that reads, and small ones that send acks, alerts, and watch for
silence. Nothing a trainer sends can take the server down or cost another trainer's records.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from tocsin import protocol
from tocsin.protocol import Ack, Alert, Alive, Event, Finish, Hello, ProtocolError, Records, Refused, Welcome
from tocsin_server.actions import ACTIONS
from tocsin_server.actions import KIND as ACTION
from tocsin_server.admission import TryLaterError
from tocsin_server.domain import AlertState, Transition, Writer
from tocsin_server.intake import frame_refusal, read_hello, shown
from tocsin_server.pace import Pace
from tocsin_server.pipeline import Admitted, UnknownWriterError
from tocsin_server.services import Services, services_of

log = logging.getLogger("tocsin.ingest")
router = APIRouter()

BAD_HELLO, BAD_TOKEN, BAD_SCOPE, LATER, SILENT = 4400, 4401, 4403, 4503, 4408
"""Close codes (docs/protocol.md)."""
FAULTS = 3
"""Malformed frames in a row that close a connection."""
SILENCE_S = 30.0
"""A trainer says ``alive`` every 5 s; one not heard for so long is gone, whatever TCP believes."""
LOOK_S = 5.0


class Closing(Exception):  # noqa: N818 - the way out of a conversation, not an error
    """Ends the connection with a code, after a sentence where there is one."""

    def __init__(self, code: int, refusal: Refused | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.refusal = refusal


@router.websocket(protocol.PATH)
async def ingest(websocket: WebSocket) -> None:
    """One trainer, from hello to disconnect."""
    services = services_of(websocket)
    if not services.gate.same_origin(websocket):
        await websocket.close(1008)  # a page of another site must not write with its visitor's cookie
        return
    await websocket.accept()
    trainer = Trainer(websocket, services)
    try:
        await trainer.converse()
    except Closing as closing:
        await trainer.close(closing)
    except WebSocketDisconnect:
        pass
    except UnknownWriterError as error:
        refusal = Refused("connection", "try-later", "a known writer", str(error), retry=True)
        await trainer.close(Closing(LATER, refusal))


class Trainer:
    """One connection of a training process."""

    def __init__(self, websocket: WebSocket, services: Services) -> None:
        self._websocket = websocket
        self._services = services
        self._pipeline = services.pipeline
        self._limits = services.pipeline.limits
        self._sending = asyncio.Lock()
        self._ack_due = asyncio.Event()
        self._faults = 0
        self._heard = time.monotonic()
        self._held_up = False
        """Whether we are not reading for reasons of our own."""
        self._silent_s = 0.0
        """How long the trainer had been silent when we gave it up."""

    async def converse(self) -> None:
        """Hello, then records until one side goes. Raises :class:`Closing`."""
        hello, told = await self._greeted()
        admitted = await self._admitted(hello)
        try:
            await self._welcome(hello, admitted, told)
            await self._serve(hello, admitted.writer)
        finally:
            self._pipeline.disconnected(admitted.writer, silent_s=self._silent_s)

    # Hello

    async def _greeted(self) -> tuple[Hello, list[Refused]]:
        """The first message, checked. Raises :class:`Closing` for anything but an acceptable hello."""
        limit_s = self._services.settings.hello_timeout_s
        try:
            frame = await asyncio.wait_for(self._frame(), limit_s)
        except TimeoutError:
            raise _bad_hello(f"hello within {limit_s:g} s", "nothing") from None
        if len(frame) > self._limits.frame_bytes + self._limits.config_bytes:
            raise _bad_hello(f"a frame of at most {self._limits.frame_bytes} bytes", f"{len(frame)} bytes")
        hello = _decoded_hello(frame)
        await self._check_token(hello)
        hello, told = read_hello(hello, self._limits)
        if any(refusal.scope == "connection" for refusal in told):
            raise Closing(BAD_HELLO, told[0])
        return hello, told

    async def _check_token(self, hello: Hello) -> None:
        gate = self._services.gate
        if hello.token:
            identity = await asyncio.to_thread(gate.check_token, hello.token)
        else:
            identity = await asyncio.to_thread(gate.session_of, self._websocket)
        if identity is None:
            got = "a token that is unknown or revoked" if hello.token else "no token"
            raise Closing(BAD_TOKEN, Refused("connection", "bad-token", "a valid ingest token", got))
        if not identity.may_ingest(hello.project):
            got = f"one for {shown(identity.project) if identity.project else identity.scope.value}"
            expected = f"a token that may report to project {shown(hello.project)}"
            raise Closing(BAD_SCOPE, Refused("connection", "token-scope", expected, got))

    async def _admitted(self, hello: Hello) -> Admitted:
        try:
            return await self._pipeline.open(hello)
        except TryLaterError as error:
            refusal = Refused("connection", "try-later", error.expected, error.got, retry=True)
            raise Closing(LATER, refusal) from error

    async def _welcome(self, hello: Hello, admitted: Admitted, told: list[Refused]) -> None:
        writer = admitted.writer
        welcome = Welcome(
            version=protocol.agree(hello.version, hello.oldest_version),
            run=writer.run_id,
            attempt=writer.attempt_no,
            seq=admitted.seq,
            events=admitted.events,
            flush_ms=self._pipeline.pressure.flush_ms,
            limits=self._limits.told(),
        )
        await self._send(welcome)
        await self._tell(told)

    # Records

    async def _serve(self, hello: Hello, writer: Writer) -> None:
        """Reads until the trainer goes, while acks and alerts go out beside it."""
        beside: list[Coroutine[Any, Any, None]] = [self._send_acks(writer), self._watch_silence()]
        if "alerts" in hello.wants:
            beside.append(self._send_alerts(writer.run_id))
        if not frozenset(ACTIONS).isdisjoint(hello.wants):
            beside.append(self._send_requests(hello, writer))
        await _first_of(self._read(writer), *beside)

    async def _read(self, writer: Writer) -> None:
        pace = Pace(self._limits.records_per_s, time.monotonic())
        while True:
            self._held_up = True
            await self._pipeline.ready_for_more()
            self._held_up, self._heard = False, time.monotonic()
            frame = await self._frame()
            self._heard = time.monotonic()
            records = await self._take(writer, frame)
            delay_s = pace.delay(records, self._heard) if records else 0.0
            if delay_s > 0:
                self._held_up = True
                await asyncio.sleep(delay_s)

    async def _take(self, writer: Writer, frame: bytes) -> int:
        """Deals with one frame; returns how many records it brought."""
        message = self._decoded(frame)
        if isinstance(message, Refused):
            await self._malformed(message)
        elif isinstance(message, Records):
            await self._take_records(writer, frame, message)
            return len(message.step) // 8
        elif isinstance(message, Event):
            await self._tell(self._pipeline.accept_event(writer, message, self._ack_due.set))
            if message.kind == ACTION:
                self._services.desk.heard(writer, message.data)
        elif isinstance(message, Alive):
            self._pipeline.alive(writer, message)
        elif isinstance(message, Finish):
            await self._tell(self._pipeline.finish(writer, message, self._ack_due.set))
        return 0

    async def _take_records(self, writer: Writer, frame: bytes, message: Records) -> None:
        if len(frame) <= self._limits.frame_bytes:
            await self._tell(self._pipeline.accept(writer, message, self._ack_due.set))
            return
        self._pipeline.turn_away(writer, message, self._ack_due.set)
        await self._tell([frame_refusal(len(frame), self._limits, message.seq)])

    def _decoded(self, frame: bytes) -> Records | Event | Alive | Finish | Refused:
        """The message in a frame, or the sentence about one that holds none."""
        try:
            message = protocol.decode_client(frame)
        except ProtocolError as error:
            if len(frame) > self._limits.frame_bytes:
                return frame_refusal(len(frame), self._limits)
            return Refused("connection", error.code, error.expected, error.got)
        if isinstance(message, Hello):
            return Refused(
                "connection", "malformed-frame", "records, event, alive or finish", "a second hello"
            )
        self._faults = 0
        return message

    async def _malformed(self, refusal: Refused) -> None:
        self._faults += 1
        if self._faults >= FAULTS:
            raise Closing(BAD_HELLO, refusal)
        await self._tell([refusal])

    # Sending

    async def _send_acks(self, writer: Writer) -> None:
        """Cumulative acks: one for all that became durable while the last one went out."""
        while True:
            await self._ack_due.wait()
            self._ack_due.clear()
            seq, events = self._pipeline.durable(writer)
            await self._send(Ack(seq=seq, events=events, flush_ms=self._pipeline.pressure.flush_ms))

    async def _send_alerts(self, run_id: str) -> None:
        with self._services.hub.listen(run_id) as listener:
            while True:
                await listener.wake()
                listener.take_dirty()
                for transition in listener.take_alerts():
                    if transition.first and transition.alert.state is not AlertState.PENDING:
                        await self._send(told_alert(transition))

    async def _send_requests(self, hello: Hello, writer: Writer) -> None:
        """What a trainer that opted in is asked for when an alert of its run fires."""
        desk, hub = self._services.desk, self._services.hub
        with hub.listen(writer.run_id) as listener, desk.seated(writer, hello, listener.ring) as seat:
            while True:
                await listener.wake()
                listener.take_dirty()
                for transition in listener.take_alerts():
                    desk.alert(transition)
                for request in seat.take():
                    await self._send(request)

    async def _watch_silence(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            silent_s = time.monotonic() - self._heard
            if not self._held_up and silent_s > SILENCE_S:
                self._silent_s = silent_s
                got = f"nothing for {SILENCE_S:g} s"
                raise Closing(SILENT, Refused("connection", "silence", "alive every 5 s", got, retry=True))

    async def _tell(self, refused: list[Refused]) -> None:
        for refusal in refused:
            await self._send(refusal)

    async def _send(self, message: protocol.ServerMessage) -> None:
        async with self._sending:
            await self._websocket.send_bytes(protocol.encode(message))

    async def _frame(self) -> bytes:
        """The next frame; text counts as its bytes. Raises WebSocketDisconnect."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        body = message.get("bytes")
        return body if body is not None else (message.get("text") or "").encode()

    async def close(self, closing: Closing) -> None:
        """Says the last sentence and closes; a peer that is gone already hears neither."""
        with suppress(WebSocketDisconnect, RuntimeError):
            if closing.refusal is not None:
                await self._send(closing.refusal)
            await self._websocket.close(closing.code)


def _bad_hello(expected: str, got: str) -> Closing:
    return Closing(BAD_HELLO, Refused("connection", "bad-hello", expected, got))


def _decoded_hello(frame: bytes) -> Hello:
    try:
        hello = protocol.decode_client(frame)
        if isinstance(hello, Hello):
            protocol.agree(hello.version, hello.oldest_version)
            return hello
    except ProtocolError as error:
        raise Closing(BAD_HELLO, Refused("connection", error.code, error.expected, error.got)) from error
    raise _bad_hello("hello as the first message", type(hello).__name__.lower())


def told_alert(transition: Transition) -> Alert:
    """An alert as the trainer hears of it."""
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
    )


async def _first_of(*parts: Coroutine[Any, Any, None]) -> None:
    """Runs ``parts`` side by side until one ends, ends the others, and raises what it raised."""
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
