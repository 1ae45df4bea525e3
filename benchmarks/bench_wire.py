"""Measure what the hook sends and receives: bytes per second on its TCP connection, through a counting relay.

Runs of the real hook log 4 values at 10 and at 100 steps/s, and 20 values at 100 steps/s. The sink
acknowledges every 0.2 s. From the three rates follow the bytes of an idle connection, of a step and of a
value. The headers of TCP and IP are not included.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tocsin
from benchmarks.bench_hook import sink
from benchmarks.figures import figure

SECONDS = 6.0
"""Of each run, after a second that is not counted."""


class Relay:
    """A TCP relay that counts bytes in both directions."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.count += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()


@contextlib.contextmanager
def relay(url: str) -> Iterator[Relay]:
    """Yield a relay to a server on this machine."""
    made = Relay(int(url.rpartition(":")[2]))
    try:
        yield made
    finally:
        made.close()


def bytes_per_s(url: str, folder: Path, values: int, rate: float) -> float:
    """Return the bytes per second of a run that logs ``values`` values at ``rate`` steps per second."""
    row = {f"value{no}": 0.1 * no for no in range(values)}
    with relay(url) as counting:
        run = tocsin.watch("bench", name="wire", url=counting.url, spool_dir=folder, patch=False, quiet=True)
        begun, counted = time.monotonic(), 0
        for step in range(int(rate * (SECONDS + 1))):
            run.log(row, step=step)
            if step == int(rate):
                counted, since = counting.count, time.monotonic()
            time.sleep(max(0.0, begun + (step + 1) / rate - time.monotonic()))
        total = (counting.count - counted) / (time.monotonic() - since)
        run.finish()
    return total


def main() -> None:
    """Print the three rates and what follows from them."""
    with sink() as url, tempfile.TemporaryDirectory() as place:
        slow, fast, wide = (
            bytes_per_s(url, Path(place), values, rate) for values, rate in ((4, 10), (4, 100), (20, 100))
        )
    print(
        f"4 values at 10 steps/s {slow:,.0f} B/s, at 100 steps/s {fast:,.0f} B/s; 20 at 100 {wide:,.0f} B/s"
    )
    value = (wide - fast) / (16 * 100)
    step = (fast - slow) / 90 - 4 * value
    idle = slow - 10 * (step + 4 * value)
    print(f"a connection {idle:,.0f} B/s, and {step:.1f} bytes a step, and {value:.1f} bytes a value")
    figure("network, connection", idle, "bytes/s")
    figure("network, step", step, "bytes", ratio=True)
    figure("network, value", value, "bytes", ratio=True)


if __name__ == "__main__":
    main()
