"""Threads that are the first to read saved states, as when a server with several runs starts."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.bench_detect import batches
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

PROGRAM = """
import sys, threading
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

body = bytes.fromhex(sys.argv[1])
sys.setswitchinterval(1e-6)
start = threading.Barrier(8)

def first():
    start.wait()
    Engine.restore(RunContext(), body)

threads = [threading.Thread(target=first) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


def test_threads_that_read_states_first_do_not_crash_the_server() -> None:
    """msgspec 0.22 dereferences NULL if two threads prepare a type at once: types are prepared on import."""
    engine = Engine(RunContext(planned_steps=4000))
    for batch in batches(500)[:4]:
        engine.observe(batch)
    command = [sys.executable, "-c", PROGRAM, engine.save().hex()]
    assert [subprocess.run(command).returncode for _ in range(3)] == [0] * 3
