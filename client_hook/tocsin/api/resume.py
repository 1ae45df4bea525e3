"""Ask the server for the checkpoints of a run, for scripts that restart a training.

Unlike the hook, these functions raise: a script that restarts from nothing because the server was
unreachable would lose a training.
"""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import quote

from ..core.paths import unescaped
from ..core.run_fields import host_of
from ..read import Api, NotFoundError


def last_good_checkpoint(
    run: str, *, before: int | None = None, url: str | None = None, token: str | None = None
) -> str | None:
    """Return the path of the last good checkpoint of a run; see ``tocsin.last_good_checkpoint``."""
    found = checkpoints(run, before=before, url=url, token=token)["last_good"]
    return None if found is None else str(found["file"])


def checkpoints(
    run: str, *, before: int | None = None, url: str | None = None, token: str | None = None
) -> dict[str, Any]:
    """Return the server's answer about the checkpoints of a run, with what this machine knows about them.

    Each item has in addition its path ``file``, and whether it ``exists``: None if it was saved on another
    machine and is not here. The last good one is the newest that is not known to be missing.

    Args:
        run: The run's id, or its name if only one run has it.
        before: Only checkpoints before this step are good.
        url: Address of the server; default: ``TOCSIN_URL``.
        token: A token with the scope ``read``; default: ``TOCSIN_TOKEN``.

    Raises:
        LookupError: There is no such run.
        PermissionError: The token is not valid, or may not read.
        ConnectionError: The server did not respond.
        ValueError: ``url`` is not an address.
    """
    with Api(url, token) as api:
        try:
            answer = _answer(api, run, before)
        except NotFoundError:
            answer = _answer(api, api.run(run).id, before)
    host = host_of(None, os.environ) if "TOCSIN_HOSTNAME" in os.environ else socket.gethostname()
    for item in answer["items"]:
        _look(item, host)
    best = answer["last_good"]
    if best is not None:
        _look(best, host)
    good = [item for item in answer["items"] if not item["problem"]]
    answer["last_good"] = next(
        (item for item in ([best] if best is not None else []) + good if item["exists"] is not False), None
    )
    if best is not None and answer["last_good"] is not best:
        gone = f"{best['path']} (step {best['step']}) no longer exists"
        left = answer["last_good"]
        instead = (
            "No other checkpoint is good to resume from"
            if left is None
            else f"Resume from {left['path']} (step {left['step']})"
        )
        answer["text"] = f"{gone}. {instead}."
    return answer


def _answer(api: Api, run: str, before: int | None) -> dict[str, Any]:
    answer: dict[str, Any] = api.get(f"/runs/{quote(run, safe='')}/checkpoints", before=before)
    return answer


def _look(item: dict[str, Any], host: str) -> None:
    """Add the real path of a checkpoint and whether it exists here."""
    file = unescaped(item["path"]) if item["escaped"] else item["path"]
    item["file"], item["exists"] = file, _exists(file, is_here=bool(host) and item["host"] == host)


def _exists(file: str, *, is_here: bool) -> bool | None:
    """Return whether it exists, or None if that cannot be known here."""
    if "://" in file:
        return None
    try:
        os.stat(file)
    except FileNotFoundError:
        return False if is_here else None
    except (OSError, ValueError):
        return None
    return True
