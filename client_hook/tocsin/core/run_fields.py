"""Adjust what a script passes for its run to what the server accepts: names, tags, notes, ids, counts. Pure.

The server rejects a handshake with a name that is too long or an invalid count, and with it every record of
the run. Such values are therefore adjusted here, with a warning. The limits are those of the server
(docs/internals/protocol.md).
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import socket
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..protocol import MOST_STEP
from .values import text, whole

if TYPE_CHECKING:
    pass

LOG = logging.getLogger("tocsin")
NAME_BYTES = 256
TAGS = 64
NOTES = 1 << 18
"""Maximum number of characters of notes."""
_FOREIGN = re.compile(r"[^A-Za-z0-9._:-]")
"""Characters that a run id cannot contain, because it is used in URLs and file names."""


def name_of(given: Any, what: str) -> str:
    """Return ``given`` as one line without control characters, in at most NAME_BYTES bytes."""
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text(given))
    fit = plain.encode()[:NAME_BYTES].decode("utf-8", "ignore")
    if fit != text(given):
        _warn(what, f"at most {NAME_BYTES} bytes without control characters", given, fit)
    return fit


def host_of(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the host name to report: ``given``, or ``TOCSIN_HOSTNAME``, or the name of this machine."""
    given = environ.get("TOCSIN_HOSTNAME") if given is None else given
    return socket.gethostname() if given is None else name_of(given, "host")


def unique_name(script: str, seed: str) -> str:
    """Return a name for an unnamed run, such as ``train-482193``. All of its ranks get the same name.

    The number is at the end, so that the server can still find runs of the same script.
    """
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big") % 1_000_000
    return f"{script.encode()[: NAME_BYTES - 7].decode('utf-8', 'ignore')}-{number:06d}"


def tags_of(given: Any) -> list[str]:
    """Return up to TAGS tags. A single text is one tag."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    tags = [name_of(tag, "tag") for tag in (given if several else [given])]
    if len(tags) > TAGS:
        _warn("tags", f"at most {TAGS}", len(tags), f"the first {TAGS}")
    return tags[:TAGS]


def notes_of(given: Any) -> str:
    """Return free text, truncated to NOTES characters."""
    return "" if given is None else text(given)[:NOTES]


def run_of(given: Any) -> str:
    """Return the id of an earlier run. Invalid characters become hyphens."""
    known = text(given)
    fit = _FOREIGN.sub("-", known)[:NAME_BYTES]
    fit = fit if fit.strip(".") else "-" * len(fit)  # a path of dots would be another URL
    if fit != known:
        _warn("run id", "letters, digits and . _ : -", known, fit)
    return fit


def count_of(given: Any, what: str) -> int | None:
    """Return a non-negative integer, also from a float, NumPy or a tensor, or None if it is not one."""
    if given is None:
        return None
    number = whole(given)
    if number is None or not 0 <= number <= MOST_STEP:
        _warn(what, f"a whole number from 0 to {MOST_STEP}", given, None)
        return None
    return number


def seconds_of(given: Any, default: float) -> float:
    """Return a time limit in seconds, from 0 to one day."""
    try:
        seconds = float(default if given is None else given)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        _warn("exit_timeout", "a number of seconds", given, f"{default:g}")
        return default
    return min(max(seconds, 0.0), 86_400.0)


def _warn(what: str, expected: str, given: Any, became: str | None) -> None:
    result = "It is ignored" if became is None else f"Used instead: {became}"
    LOG.warning("tocsin: %s: expected %s, got %.80r. %s.", what, expected, given, result)
