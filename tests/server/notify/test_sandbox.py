"""What the sending process can still access on the server's machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tocsin_server.notify.channels import apprise
from tocsin_server.notify.sandbox import files_guard

TRIES = """
import ctypes, json, os, socket, ssl, subprocess, sys
from pathlib import Path
from tocsin_server.notify.sandbox import confine
secret, folder = Path(sys.argv[1]), Path.cwd()
os.symlink(secret, folder / "link")
found = {"kernel": confine(folder, print, private=True)}
libc = ctypes.CDLL(None, use_errno=True)
ways = {
    "open": lambda: open(secret),
    "link": lambda: (folder / "link").read_bytes(),
    "os.open": lambda: os.open(os.fsencode(secret), os.O_RDONLY),
    "listdir": lambda: os.listdir(secret.parent),
    "absent": lambda: open(secret.with_name("absent")),
    "write": lambda: (secret.parent / "new").write_text("x"),
    "write to the installation": lambda: open(Path(os.__file__).with_name("new"), "w"),
    "rename": lambda: os.rename(folder / "link", secret),
    "remove": lambda: secret.unlink(),
    "environment of the server": lambda: open(f"/proc/{os.getppid()}/environ"),
    "program": lambda: subprocess.run(["cat", secret]),
    "shell": lambda: os.system("true"),
    "fork": os.fork,
    "own folder": lambda: (folder / "picture").write_bytes(b"x"),
    "library": lambda: __import__("sqlite3"),
    "tls": ssl.create_default_context,
    "name": lambda: socket.getaddrinfo("localhost", 1),
}
for name, way in ways.items():
    try:
        way()
        found[name] = "done"
    except PermissionError:
        found[name] = "refused"
    except OSError as error:
        found[name] = repr(error)
found["native"] = "done" if libc.open(os.fsencode(secret), 0) >= 0 else "refused"
print(json.dumps(found))
"""
MAY = {"own folder", "library", "tls", "name"}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the result of each attempt, in a process that has dropped its privileges."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("own")
    (data / "tocsin.db").write_text("secret")
    command = [sys.executable, "-c", TRIES, str(data / "tocsin.db")]
    path = os.pathsep.join(apprise._packages())
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in data.iterdir()] == ["tocsin.db"]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_reads_writes_and_starts_nothing_of_the_servers(tried: dict[str, Any]) -> None:
    """By any call of Python; the error is the same for a file that does not exist."""
    ways = {name: came for name, came in tried.items() if name not in MAY | {"kernel", "native"}}
    assert ways == dict.fromkeys(ways, "refused")


def test_it_can_still_send(tried: dict[str, Any]) -> None:
    """The process can use its own folder, libraries, certificates and name resolution."""
    assert {name: tried[name] for name in MAY} == dict.fromkeys(MAY, "done")


def test_native_code_reads_none_of_it_either(tried: dict[str, Any]) -> None:
    """If the kernel has Landlock."""
    if not tried["kernel"]:
        pytest.skip("this kernel has no Landlock; the interpreter's hook is all there is")
    assert tried["native"] == "refused"


def test_a_descriptor_that_is_open_may_be_used(tmp_path: Path) -> None:
    """Files that were opened before, and modes, are not paths."""
    guard = files_guard([], tmp_path)
    guard("open", (3, "r", 0))
    guard("os.mkdir", (str(tmp_path / "new"), 0o700, -1))
    with pytest.raises(PermissionError):
        guard("open", (str(tmp_path.parent / "other"), "r", 0))


def test_it_gets_nothing_of_the_servers_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No database password, and no home directory with a .netrc."""
    monkeypatch.setenv("TOCSIN_DATABASE_URL", "postgresql://me:secret@host/db")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environ = apprise._environment(str(tmp_path))
    assert "secret" not in str(environ)
    assert environ["HOME"] == environ["TMPDIR"] == str(tmp_path)
