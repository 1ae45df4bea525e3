"""``tocsin top`` while the server is away."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Tower
from tests.hook.read.conftest import begun
from tests.hook.top.seen import Seen, scenario


def test_an_outage_is_announced_and_survived(tower: Tower, tmp_path: Path) -> None:
    begun(tower, "kept", tmp_path / "spool").finish()

    async def play(seen: Seen) -> None:
        await seen.until("kept")
        tower.kill()
        await seen.press("r")
        await seen.until("has not responded since", "Retrying. Values are from", "kept")
        tower.start()
        await seen.press("r")
        await seen.holds(lambda: "has not responded" not in seen.text, lambda: seen.text)
        assert "kept" in seen.text

    scenario(tower.base, tower.token, play)
