"""The whole screen of ``tocsin top`` at 80 x 24, compared with the text in ``top.txt``.

Set ``UPDATE_SNAPSHOTS=1`` to write the file again, and read the difference.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any

from tests.hook.top.seen import Seen, scenario
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token

SNAPSHOT = Path(__file__).with_name("top.txt")
BETWEEN = "---\n"
CHANGING = (
    (r"\b\d+ (?:s|min|h|d)\b", "AGE"),
    (r"http://127\.0\.0\.1:\d+", "URL"),
    (r"\br_\d*(?:…|\b)", "RUN"),
    (r"\d+(?:\.\d+)?(?:e[+-]?\d+)? steps/s", "RATE"),
    (r"[ \t]+", " "),
)
"""What differs between two runs of this test, and what stands for it."""


def steady(seen: Seen) -> str:
    """Return the screen without ages, addresses and ids."""
    assert [len(line) for line in seen.lines] == [80] * 24
    text = seen.text
    for pattern, name in CHANGING:
        text = re.sub(pattern, name, text)
    return "\n".join(line.strip() for line in text.splitlines()) + "\n"


def difference(wanted: str, shown: str) -> str:
    return "the screen to be as before:\n" + "\n".join(unified_diff(wanted.splitlines(), shown.splitlines()))


def test_the_screens_look_as_before(server: Any, trainer: Callable[..., Trainer]) -> None:
    run = trainer(name="snapshot", project="topped")
    run.records(
        {
            "loss": [2 - step / 100 for step in range(110)] + [math.nan] * 10,
            "grad_norm": [1.0 + step % 3 for step in range(120)],
        }
    )
    found: list[str] = []
    wanted = SNAPSHOT.read_text("utf-8").split(BETWEEN)

    async def compare(seen: Seen) -> None:
        """Wait until the screen is as before: parts of it arrive one after another."""
        if not os.environ.get("UPDATE_SNAPSHOTS"):
            before = wanted[len(found)]
            await seen.holds(lambda: steady(seen) == before, lambda: difference(before, steady(seen)))
        found.append(steady(seen))

    async def play(seen: Seen) -> None:
        await seen.until("snapshot", "nonfinite-loss")
        await compare(seen)
        await seen.press("enter")
        await seen.until("grad_norm")
        await seen.holds(lambda: re.search("[\u2801-\u28ff]", seen.text), lambda: f"a chart in\n{seen.text}")
        await compare(seen)

    scenario(server.base, token(server, "read"), play, scope="read", filter=f"id:{run.run}")
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(BETWEEN.join(found), "utf-8")
    assert found == SNAPSHOT.read_text("utf-8").split(BETWEEN)
