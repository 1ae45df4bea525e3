"""Names of runs, projects, series and tags, and how a rejection shows external text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from tocsin.protocol import Hello, Refused
from tocsin_server.runs.validation.limits import Limits

MOST_TAGS = 64
RUN_ID = re.compile(r"[A-Za-z0-9._:-]+")
"""Run ids appear in URLs and file names."""
PLAIN_NAME = "a name of 1 to {} bytes without control characters"


def shown(value: str, most: int = 60) -> str:
    """Return external text for use in a sentence: quoted, escaped and shortened."""
    if len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}… ({len(value.encode('utf-8', 'replace'))} bytes)"


def is_name(text: str, limit_bytes: int) -> bool:
    """Whether ``text`` can be the name of a series, run or project."""
    if not 0 < len(text.encode("utf-8", "replace")) <= limit_bytes:
        return False
    return text.isprintable() or not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text)


def names_problem(
    needed: Mapping[str, str], optional: Mapping[str, str], limits: Limits
) -> tuple[str, str] | None:
    """Return (expected, got) for the first text that is not a name, or None. Optional ones may be empty."""
    for label, text in (*needed.items(), *((label, text) for label, text in optional.items() if text)):
        if not is_name(text, limits.name_bytes):
            return f"{label}: {PLAIN_NAME.format(limits.name_bytes)}", shown(text)
    return None


def tags_problem(tags: Sequence[str], limits: Limits) -> tuple[str, str] | None:
    """Return (expected, got) if these are not valid tags of a run, or None."""
    if len(tags) > MOST_TAGS:
        return f"at most {MOST_TAGS} tags", str(len(tags))
    return names_problem({}, {f"tag {no}": tag for no, tag in enumerate(tags)}, limits)


def run_id_problem(run_id: str, limits: Limits) -> tuple[str, str] | None:
    """Return (expected, got) if this is not a valid run id, or None.

    An id that consists only of dots would refer to another location in URLs and paths.
    """
    if len(run_id) > limits.name_bytes or not RUN_ID.fullmatch(run_id) or not run_id.strip("."):
        return f"a run id of 1 to {limits.name_bytes} letters, digits and . _ : -", shown(run_id)
    return None


def markup_notice(hello: Hello) -> Refused | None:
    """Return a notice about markup in a name. The name is kept as sent and escaped on output."""
    for label, text in (("project", hello.project), ("name", hello.name)):
        if re.search(r"<[A-Za-z/!]", text):
            got = f"{shown(text)}; kept as sent, escaped where it is shown"
            return Refused("notice", "markup-in-name", f"a {label} without markup", got)
    return None
