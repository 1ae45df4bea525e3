"""What a script calls its run, as the server takes it: names, tags, notes, identifiers, counts. Pure.

A hello with a name that is too long, or a count that is none, is refused, and with it every record of
the run: so what does not fit is made to, and a warning says what became of it. Limits are those of the
server (docs/protocol.md).
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
"""Characters of notes."""
_FOREIGN = re.compile(r"[^A-Za-z0-9._:-]")
"""What the identifier of a run may not hold: it stands in addresses and file names."""


def name_of(given: Any, what: str) -> str:
    """``given`` on one line, without control characters, in at most NAME_BYTES bytes."""
    plain = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text(given))
    fit = plain.encode()[:NAME_BYTES].decode("utf-8", "ignore")
    if fit != text(given):
        _say(what, f"at most {NAME_BYTES} bytes without control characters", given, fit)
    return fit


def host_of(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name to report this machine by: ``given``, else ``TOCSIN_HOSTNAME``, else its host name."""
    given = environ.get("TOCSIN_HOSTNAME") if given is None else given
    return socket.gethostname() if given is None else name_of(given, "host")


def unique_name(script: str, seed: str) -> str:
    """Return a name for a run that the script gave none: ``train-482193``, the same on all its ranks.

    The number comes last, so that the server still finds runs of the same script.
    """
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big") % 1_000_000
    return f"{script.encode()[: NAME_BYTES - 7].decode('utf-8', 'ignore')}-{number:06d}"


def tags_of(given: Any) -> list[str]:
    """Up to TAGS tags; one word alone is one tag, None is none."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    tags = [name_of(tag, "tag") for tag in (given if several else [given])]
    if len(tags) > TAGS:
        _say("tags", f"at most {TAGS}", len(tags), f"the first {TAGS}")
    return tags[:TAGS]


def notes_of(given: Any) -> str:
    """Free text, cut at NOTES characters."""
    return "" if given is None else text(given)[:NOTES]


def run_of(given: Any) -> str:
    """An earlier run's identifier; what none may hold becomes a hyphen, the same each time."""
    known = text(given)
    fit = _FOREIGN.sub("-", known)[:NAME_BYTES]
    fit = fit if fit.strip(".") else "-" * len(fit)  # dots alone lead elsewhere in addresses
    if fit != known:
        _say("run id", "letters, digits and . _ : -", known, fit)
    return fit


def count_of(given: Any, what: str) -> int | None:
    """A whole number from 0, also where it is a float, of NumPy or a tensor; None where it is none."""
    if given is None:
        return None
    number = whole(given)
    if number is None or not 0 <= number <= MOST_STEP:
        _say(what, f"a whole number from 0 to {MOST_STEP}", given, "left out")
        return None
    return number


def seconds_of(given: Any, default: float) -> float:
    """A time to wait at most, in seconds: from 0 to a day."""
    try:
        seconds = float(default if given is None else given)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        _say("exit_timeout", "seconds", given, f"{default:g}")
        return default
    return min(max(seconds, 0.0), 86_400.0)


def _say(what: str, expected: str, given: Any, became: str) -> None:
    LOG.warning("tocsin: %s: expected %s, got %.80r: %s", what, expected, given, became)
