"""Start ``tocsin-server`` and trainings by forking a process that has imported the server, or torch.

That saves a second of CPU for each server, and two to four for each training. They are real processes: a test
can kill, stop and inspect them by their pid. tests/server/cli and tests/packaging start the command as a user
does; tests/hook/auto, tests/hook/api and tests/hook/lifecycle start trainings as a user does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

COMMAND = [sys.executable, "-m", "tocsin_server"]
MOST_BYTES = 1 << 20
KILLED = -signal.SIGKILL
SERVER, TORCH = "server", "torch"
"""What the process that forks has imported."""
_PATH: list[str] = []
"""Of the process that forks: ``sys.path`` without ``PYTHONPATH``."""
_serving = False
_forking: dict[str, tuple[socket.socket, subprocess.Popen[bytes]]] = {}
_asking = threading.Lock()


class ForkedProcess:
    """The part of ``subprocess.Popen`` that the tests use. ``stdout`` is a pipe of bytes, or None."""

    def __init__(self, pid: int, status: socket.socket, stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stdout is not None:
            self.stdout.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        return self._looked(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises ``subprocess.TimeoutExpired``."""
        ends = None if timeout is None else time.monotonic() + timeout
        while (status := self._looked(0.05)) is None:
            if ends is not None and time.monotonic() > ends:
                raise subprocess.TimeoutExpired(COMMAND, float(timeout or 0.0))
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal. Does nothing if the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _looked(self, timeout_s: float) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
                status_pipe = self._status.recv(16)
                self.returncode = int(status_pipe) if status_pipe else KILLED
                self._status.close()
            return self.returncode


Process = ForkedProcess | subprocess.Popen[bytes]


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """Let ``start`` and ``train`` fork during the block. What forks starts with the first call."""
    global _serving
    _serving = True
    try:
        yield
    finally:
        _serving = False
        for asked, process in _forking.values():
            asked.close()
            process.wait()
        _forking.clear()


def start(
    *arguments: str, stderr: int, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Process:
    """Run ``python -m tocsin_server ARGUMENTS`` with its output in a pipe: forked if during ``serving``.

    ``stderr`` is a file descriptor, or ``subprocess.STDOUT``.
    """
    if not _serving:
        return subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=stderr, env=env, cwd=cwd
        )
    reading, writing = os.pipe()
    try:
        errors = writing if stderr == subprocess.STDOUT else stderr
        return _forked(SERVER, arguments, env, cwd, (writing, errors), os.fdopen(reading, "rb"))
    finally:
        os.close(writing)


def train(*command: str, env: dict[str, str], stdout: int, stderr: int) -> Process:
    """Run ``python COMMAND`` with its output in two file descriptors: forked if during ``serving``.

    The command is a script, ``-c`` or ``-m``, without options of Python before it. torch is imported, with
    what it imports for the first optimizer.
    """
    if not _serving:
        return subprocess.Popen([sys.executable, *command], env=env, stdout=stdout, stderr=stderr)
    return _forked(TORCH, command, env, None, (stdout, stderr), None)


def _forked(
    imported: str,
    arguments: tuple[str, ...],
    env: dict[str, str] | None,
    cwd: Path | None,
    outputs: tuple[int, int],
    stdout: IO[bytes] | None,
) -> ForkedProcess:
    request = {
        "arguments": arguments,
        "env": dict(os.environ) if env is None else env,
        "cwd": str(cwd or Path.cwd()),
    }
    status, status_pipe = socket.socketpair()
    with status_pipe, _asking:
        asked = _started(imported)
        socket.send_fds(asked, [json.dumps(request).encode()], [*outputs, status_pipe.fileno()])
        return ForkedProcess(int(asked.recv(16)), status, stdout)


def _started(imported: str) -> socket.socket:
    if imported not in _forking:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno()), imported]
            _forking[imported] = ours, subprocess.Popen(command, pass_fds=[theirs.fileno()])
    return _forking[imported][0]


# In the process that forks


def _import_torch() -> None:
    """Import torch, and what it imports for the first optimizer."""
    for name in ("torch", "torch._dynamo"):
        importlib.import_module(name)


def _import_server() -> None:
    """Import the whole server, except the demo, which would import torch."""
    import tocsin_server

    for module in pkgutil.walk_packages(tocsin_server.__path__, "tocsin_server."):
        if not module.name.startswith(("tocsin_server.demo", "tocsin_server.__main__")):
            with contextlib.suppress(ImportError):  # of an optional package
                importlib.import_module(module.name)
    for name in ("psycopg", "uvloop", "uvicorn.protocols.http.httptools_impl"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    plotlyjs = importlib.import_module("tocsin_server.http.plotlyjs")
    assert plotlyjs.installed().script_gzipped, "compressed here once, not in every server"


def _serve(asked: socket.socket) -> list[str]:
    """Fork for every request; return in the fork, with the arguments of its command."""
    ended, wakeup = socket.socketpair()
    for end in (ended, wakeup):
        end.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asked, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            _report(children)
        if asked not in ready:
            continue
        text, descriptors, _, _ = socket.recv_fds(asked, MOST_BYTES, 3)
        if not text:
            raise SystemExit
        out, err, status_pipe = descriptors
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            for end in (asked, ended, wakeup):
                end.close()
            for descriptor in (status_pipe, *children.values()):
                os.close(descriptor)
            return _become(json.loads(text), out, err)
        os.close(out)
        if err != out:
            os.close(err)
        children[pid] = status_pipe
        asked.send(str(pid).encode())


def _report(children: dict[int, int]) -> None:
    for pid, status_pipe in list(children.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(OSError):
                os.write(status_pipe, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(status_pipe)
            del children[pid]


def _become(request: dict[str, Any], out: int, err: int) -> list[str]:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in {out, err}:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    return list(request["arguments"])


def _run_server(arguments: list[str]) -> None:
    command = importlib.import_module("tocsin_server.cli.main")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv[:] = ["tocsin-server", *arguments]
    command.main()


def _added_path() -> list[str]:
    """Return what ``PYTHONPATH`` adds to ``sys.path``; an empty entry is the current folder."""
    added = os.environ.get("PYTHONPATH")
    return [each or str(Path.cwd()) for each in added.split(os.pathsep)] if added else []


def _run_python(command: list[str]) -> None:
    """Do what ``python COMMAND`` does."""
    sys.orig_argv = [sys.executable, *command]
    sys.path[:] = [*_added_path(), *_PATH]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if command[0] == "-m":
        sys.path.insert(0, str(Path.cwd()))
        sys.argv[:] = command[1:]
        runpy._run_module_as_main(command[1])  # type: ignore[attr-defined]
        return
    if command[0] == "-c":
        file, text = "<string>", command[1]
        sys.path.insert(0, "")
        sys.argv[:] = ["-c", *command[2:]]
    else:
        file = main.__file__ = command[0]
        text = Path(file).read_text("utf-8")
        sys.path.insert(0, str(Path(file).parent))
        sys.argv[:] = command
    try:
        exec(compile(text, file, "exec"), main.__dict__)
    except Exception as error:  # noqa: BLE001 - of the command, reported without the frame of this function
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None


def _main() -> None:
    imports, run = {
        SERVER: (_import_server, _run_server),
        TORCH: (_import_torch, _run_python),
    }[sys.argv[2]]
    gc.disable()  # which would search the imported modules over and over
    imports()
    gc.collect()
    gc.freeze()
    gc.enable()
    run(_serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    _PATH = sys.path[len(_added_path()) :]  # a command has its own PYTHONPATH
    _main()
