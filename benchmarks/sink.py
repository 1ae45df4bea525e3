"""A server in a separate process that accepts everything: prints its port, ends when its input does."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hook.ingest_server import IngestServer, Kept
from tocsin import protocol


def main() -> None:
    """Acknowledge immediately and keep no values, so that the client is measured and not the sink."""
    Kept.take = _count  # type: ignore[method-assign]
    server = IngestServer()
    server.flush_ms = 200
    server.start()
    print(server.port, flush=True)
    sys.stdin.read()
    server.stop()


def _count(self: Kept, message: protocol.Records) -> None:
    self.seq = max(self.seq, message.seq + message.n - 1)


if __name__ == "__main__":
    main()
