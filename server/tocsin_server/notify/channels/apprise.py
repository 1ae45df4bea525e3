"""Send with the apprise library: ntfy, Teams, Matrix and more.

The library runs in a separate process (``apprise_process``), which gives up access to the server's files, to
programs and to private addresses before it uses the address (``sandbox``). Names may resolve differently each
time, and redirects may be followed, but every connection is checked. The process gets neither the server's
environment nor its home directory. If it hangs, it is killed.
"""

from __future__ import annotations

import base64
import json
import os
import site
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.channel import MASK, Field, Kind, Sending, Values
from tocsin_server.notify.message import Message, resolved_word
from tocsin_server.notify.outcome import DeliveryError

ENVIRONMENT = frozenset({
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
})  # fmt: skip
"""Environment variables that the process gets. Excluded are passwords, and HOME because of its ``.netrc``."""
START = (
    "import sys; sys.path += sys.argv[1:]; from tocsin_server.notify.apprise_process import main; "
    "raise SystemExit(main())"
)
LONGEST_STDOUT = 4000


def check(values: Values, private: bool) -> None:
    """Raise FieldError for an unknown scheme or parameter, or an address that the library cannot parse."""
    answer = _child({"url": values["url"], "private": private, "check": True}, 30.0)
    if not answer.get("ok"):
        expected = answer.get("expected", "an address that apprise can read")
        raise FieldError("config.url", str(expected), answer.get("got") or answer.get("detail") or MASK)


def send(values: Values, message: Message, sending: Sending) -> str:
    """Send a message. Raises DeliveryError."""
    picture = None if message.picture is None else base64.b64encode(message.picture).decode("ascii")
    kind = (
        "success"
        if _recovered(message)
        else {"critical": "failure", "warning": "warning"}.get(message.severity, "info")
    )
    job = {
        "url": values["url"],
        "private": sending.private,
        "title": message.title,
        "body": message.markdown,
        "kind": kind,
        "picture": picture,
        "timeout_s": sending.timeout_s,
    }
    answer = _child(job, sending.timeout_s)
    if not answer.get("ok"):
        refused = bool(answer.get("refused"))
        raise DeliveryError(str(answer.get("detail", "apprise gave no reason")), permanent=refused)
    return str(answer.get("detail", "")) or "sent"


def _recovered(message: Message) -> bool:
    """Return whether every alert of the message recovered: none was withdrawn or closed with its rule."""
    if message.status != "resolved" or message.body.get("reason") == "new":
        return False
    return all(resolved_word(alert) == "resolved" for alert in message.body["alerts"])


def _child(job: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    command = [sys.executable, "-c", START, *_packages()]
    try:
        with tempfile.TemporaryDirectory(prefix="tocsin-notify-", ignore_cleanup_errors=True) as folder:
            done = subprocess.run(  # noqa: S603 - our own interpreter and module
                command,
                input=json.dumps(job).encode(),
                capture_output=True,
                timeout=timeout_s + 3.0,
                check=False,
                cwd=folder,
                env=_environment(folder),
            )
        found = json.loads(done.stdout[-LONGEST_STDOUT:])
    except subprocess.TimeoutExpired:
        raise DeliveryError(f"did not finish within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise DeliveryError(f"the sending process failed ({type(error).__name__})") from error
    return found if isinstance(found, dict) else {}


def _environment(folder: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name in ENVIRONMENT}
    own = {"HOME": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | own | {"PYTHONUSERBASE": site.getuserbase()}


def _packages() -> list[str]:
    """Return the paths of our packages: the process has another working directory, and they need not be
    installed.
    """
    found = [find_spec(name) for name in ("tocsin_server", "tocsin")]
    places = [str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin]
    return list(dict.fromkeys(places))


KIND = Kind(
    "apprise",
    "ntfy, Teams, Matrix and more (apprise)",
    (Field("url", "an apprise address such as mailtos://user:password@example.org", secret=True),),
    check,
    send,
    pictures=True,
)
