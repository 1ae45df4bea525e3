"""A client that reports indefinitely, over as many connections as necessary.

Run by ``siege.py``: ``python besieged_trainer.py ADDRESS TOKEN RUN SEED STATUS``. The content of a record is
determined by its number alone, so nothing has to be remembered: after a reconnect it continues where the
server says. ``STATUS`` is a file with four i64: records passed to the socket, records acknowledged,
connections so far, and whether it is connected. A number on stdin is the number of records of the run; the
process ends when that many are acknowledged.
"""

from __future__ import annotations

import mmap
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from tocsin import protocol

WINDOW = 4
"""Batches in flight, so that at any moment some are not acknowledged."""
STATUS = struct.Struct("<4q")
ODD = np.array(
    [0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x8000000000000000, 0x7FF8DEADBEEF0001, 1],
    dtype=np.uint64,
).view(np.float64)
"""NaN, +Inf, -Inf, -0.0, a NaN with a payload, the smallest subnormal."""


def steps_of(seq: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the steps of records ``seq`` i64[n]; occasionally two neighbors are swapped."""
    place = seq % 100
    return np.asarray(seq + (place == 40) - (place == 41), dtype=np.int64)


def values_of(seed: int, seq: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return dense series of records ``seq`` [n]: a falling loss with non-finite values, an overflowing grad
    norm."""
    noise = np.sin(seq * 12.9898 + seed) * 0.05
    loss = 2.0 * np.exp(-seq / 20_000) + noise
    odd = seq % 700 == 650
    loss[odd] = ODD[(seq[odd] // 700 + seed) % len(ODD)]
    norm = 1.0 + noise
    norm[seq % 900 == 333] = np.inf
    return {"loss": loss, "grad_norm": norm}


def evaluated(seq: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which records [n] have a ``val``."""
    return np.asarray(seq % 10 == 3)


def batch_of(seed: int, first: int, goal: int) -> protocol.Records:
    """Return the next records."""
    seq = np.arange(first, min(first + 1 + (first * 7919) % 60, goal))
    cols: dict[str, bytes | protocol.Sparse] = {
        name: values.tobytes() for name, values in values_of(seed, seq).items()
    }
    at = np.flatnonzero(evaluated(seq)).astype("<u4")
    if at.size:
        cols["val"] = protocol.Sparse(at.tobytes(), (seq[at] * 0.5).tobytes())
    times = np.full(len(seq), time.time_ns())
    return protocol.Records(first, len(seq), steps_of(seq).tobytes(), times.tobytes(), cols)


class Trainer:
    """One process of one run."""

    def __init__(self, address: str, token: str, run: str, seed: int, status: Path) -> None:
        self._url = address.replace("http", "ws", 1) + protocol.PATH
        self._run, self._token, self._seed = run, token, seed
        with status.open("r+b") as file:
            self._status = mmap.mmap(file.fileno(), STATUS.size)
        self._goal: int | None = None
        self._sent = self._acked = 0
        self._connections = 0

    def report(self) -> None:
        """Connect, and reconnect, until everything is acknowledged."""
        threading.Thread(target=self._listen, daemon=True).start()
        while self._goal is None or self._acked < self._goal:
            try:
                with connect(self._url, compression=None, max_size=None) as socket:
                    self._converse(socket)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError, EOFError):
                time.sleep(0.02)
            self._reject_with(connected=False)

    def _listen(self) -> None:
        self._goal = int(sys.stdin.readline() or 0)

    def _reject_with(self, *, connected: bool) -> None:
        reported = (self._sent, self._acked, self._connections, connected)
        self._status[:] = STATUS.pack(*reported)

    def _hello(self) -> protocol.Hello:
        who = protocol.WriterId("first", 0, "boot", 100, 1)
        return protocol.Hello(
            1, self._token, "siege", self._run, self._run, who, 1, "node", time_ns=time.time_ns()
        )

    def _converse(self, socket: ClientConnection) -> None:
        socket.send(protocol.encode(self._hello()))
        welcome = protocol.decode_server(_bytes(socket.recv(timeout=20)))
        if not isinstance(welcome, protocol.Welcome):
            return
        self._connections += 1
        self._acked = self._sent = welcome.seq + 1
        under_way: deque[int] = deque()
        try:
            while self._goal is None or self._acked < self._goal:
                self._fill(socket, under_way)
                self._hear(socket, under_way, 0.05)
        except ConnectionClosed:
            self._hear_out(socket, under_way)
            raise

    def _fill(self, socket: ClientConnection, under_way: deque[int]) -> None:
        goal = 1 << 62 if self._goal is None else self._goal
        while len(under_way) < WINDOW and self._sent < goal:
            message = batch_of(self._seed, self._sent, goal)
            socket.send(protocol.encode(message))
            self._sent += message.n
            under_way.append(self._sent)
            self._reject_with(connected=True)

    def _hear(self, socket: ClientConnection, under_way: deque[int], timeout_s: float) -> None:
        try:
            message = protocol.decode_server(_bytes(socket.recv(timeout=timeout_s)))
        except TimeoutError:
            return
        if isinstance(message, protocol.Ack):
            self._acked = max(self._acked, message.seq + 1)
            while under_way and under_way[0] <= self._acked:
                under_way.popleft()
            self._reject_with(connected=True)

    def _hear_out(self, socket: ClientConnection, under_way: deque[int]) -> None:
        """Read acks that arrived before the connection broke."""
        try:
            while True:
                self._hear(socket, under_way, 1.0)
        except ConnectionClosed:
            return


def _bytes(frame: str | bytes) -> bytes:
    return frame if isinstance(frame, bytes) else frame.encode()


if __name__ == "__main__":
    address, token, run, seed, status = sys.argv[1:]
    Trainer(address, token, run, int(seed), Path(status)).report()
