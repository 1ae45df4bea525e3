"""The process in which apprise runs: one job on stdin, one answer on stdout, then the end.

``sys.addaudithook`` sees every connection of this interpreter just before it is made and refuses those
to an address inside. An audit hook cannot be taken off again.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin_server.notify.address import is_public

REFUSED = "refused: an address inside the server's own network"


def guard(note: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that refuses addresses inside, and sockets that are not of the internet."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("socket.connect", "socket.sendto"):
            return
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
        if not isinstance(host, str) or not is_public(host):
            note(f"{REFUSED} ({host})")
            raise PermissionError(f"{REFUSED} ({host})")

    return hook


def main() -> int:
    """Exit status 0 whatever came of it: the answer says."""
    job = json.loads(sys.stdin.buffer.read())
    refused: list[str] = []
    if not job["private"]:
        sys.addaudithook(guard(refused.append))
    if hasattr(signal, "alarm"):  # should the server die, this process does not outlive its time
        signal.alarm(int(job.get("timeout_s", 30)) + 10)
    out = sys.stdout
    sys.stdout = io.StringIO()  # what a plugin prints is no answer
    answer = _answer(job)
    if refused:
        answer = {"ok": False, "detail": refused[0], "refused": True}
    out.write(json.dumps(answer))
    return 0


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    import apprise

    words = io.StringIO()
    logging.getLogger("apprise").addHandler(logging.StreamHandler(words))
    logging.getLogger("apprise").setLevel(logging.WARNING)
    try:
        plugin = apprise.Apprise.instantiate(job["url"], suppress_exceptions=True)
        if plugin is None or isinstance(plugin, list):
            return {"ok": False, "detail": "apprise cannot read this address", "refused": True}
        if job.get("check"):
            return {"ok": True}
        return _sent(apprise, plugin, job, words)
    except Exception as error:  # noqa: BLE001 - 125 plugins; the answer says which fault
        return {"ok": False, "detail": f"{type(error).__name__}: {error}"}


def _sent(apprise: Any, plugin: Any, job: dict[str, Any], words: io.StringIO) -> dict[str, Any]:
    each = apprise.Apprise()
    each.add(plugin)
    with tempfile.TemporaryDirectory() as folder:
        attach = None
        if job.get("picture") and plugin.attachment_support:
            file = Path(folder) / "signal.png"
            file.write_bytes(base64.b64decode(job["picture"]))
            attach = str(file)
        sent = each.notify(
            body=job["body"],
            title=job["title"],
            notify_type=job["kind"],
            body_format="markdown",
            attach=attach,
        )
    said = " ".join(words.getvalue().split())
    return {"ok": bool(sent), "detail": "sent" if sent else said or "apprise says no more"}


if __name__ == "__main__":
    raise SystemExit(main())
