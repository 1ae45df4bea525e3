"""Run apprise in a separate process: one job on stdin, one result on stdout.

It starts in an empty folder with a minimal environment, and restricts itself before it uses the address
(:mod:`sandbox`).
"""

from __future__ import annotations

import base64
import io
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

from tocsin_server.notify.apprise_allowed import SCHEME, objection
from tocsin_server.notify.sandbox import confine


def main() -> int:
    """Run one job. The exit status is always 0; the result reports errors."""
    job = json.loads(sys.stdin.buffer.read())
    rejected: list[str] = []
    if hasattr(signal, "alarm"):  # if the server dies, this process still ends in time
        signal.alarm(int(job.get("timeout_s", 30)) + 10)
    out = sys.stdout
    sys.stdout = io.StringIO()  # keep the output of plugins out of the result
    folder = Path.cwd()
    import apprise

    confine(folder, rejected.append, private=bool(job["private"]))
    answer = _answer(apprise, job, folder)
    if rejected:
        answer = {"ok": False, "detail": rejected[0], "refused": True}
    out.write(json.dumps(answer))
    return 0


def _answer(apprise: Any, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    words = io.StringIO()
    logging.getLogger("apprise").addHandler(logging.StreamHandler(words))
    logging.getLogger("apprise").setLevel(logging.WARNING)
    try:
        parsed = apprise.plugins.url_to_dict(job["url"])
        wrong = (SCHEME, "an address that apprise cannot read") if parsed is None else objection(parsed)
        plugin = None if wrong else apprise.Apprise.instantiate(parsed, suppress_exceptions=True)
        if plugin is None or isinstance(plugin, list):
            expected, got = wrong or (
                "an address that apprise can read",
                "an address with a wrong or missing part",
            )
            detail = f"expected {expected}, got {got}"
            return {"ok": False, "detail": detail, "expected": expected, "got": got, "refused": True}
        if job.get("check"):
            return {"ok": True}
        return _sent(apprise, plugin, job, words, folder)
    except Exception as error:  # noqa: BLE001 - 125 plugins; the result names the error
        return {"ok": False, "detail": f"{type(error).__name__}: {error}"}


def _sent(apprise: Any, plugin: Any, job: dict[str, Any], words: io.StringIO, folder: Path) -> dict[str, Any]:
    each = apprise.Apprise()
    each.add(plugin)
    attach = None
    if job.get("picture") and plugin.attachment_support:
        file = folder / "signal.png"
        file.write_bytes(base64.b64decode(job["picture"]))
        attach = str(file)
    sent = each.notify(
        body=job["body"],
        title=job["title"],
        notify_type=job["kind"],
        body_format="markdown",
        attach=attach,
    )
    output = " ".join(words.getvalue().split())
    return {"ok": bool(sent), "detail": "sent" if sent else output or "apprise gave no reason"}


if __name__ == "__main__":
    raise SystemExit(main())
