"""Run a real nginx in front of a server, with the configuration of docs/how-to/reverse-proxy.md."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / "build" / "unpacked" / "usr" / "sbin"
"""Where ``make test`` puts it."""
NGINX = shutil.which("nginx") or shutil.which("nginx", path=f"/usr/sbin:{UNPACKED}")
DOCUMENTED = (ROOT / "docs" / "how-to" / "reverse-proxy.md").read_text("utf-8")
MAP, LOCATION = re.findall(r"(map .*\}$|location / \{[^}]*\})", DOCUMENTED, re.MULTILINE)
STORES = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def free_port() -> int:
    """Return a loopback port that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextlib.contextmanager
def reverse_proxy(folder: Path, port: int, backend: int, *, strips: bool) -> Iterator[None]:
    """Run nginx on ``port`` in front of the server on ``backend``; ``strips``: it removes ``/tocsin`` from
    paths.

    Every other path of the host belongs to another site, which responds with 418.
    """
    assert NGINX
    location = LOCATION.replace("location /", "location /tocsin/").replace(
        "127.0.0.1:8321", f"127.0.0.1:{backend}{'/' if strips else ''}"
    )
    stores = " ".join(f"{name}_temp_path {folder};" for name in STORES)
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; {stores}\n{MAP}\n"
        f"server {{ listen 127.0.0.1:{port}; {location} location / {{ return 418; }} }} }}\n"
    )
    command = [NGINX, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(config)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()
