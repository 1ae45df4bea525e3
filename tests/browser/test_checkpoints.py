"""The checkpoints of a run on its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tocsin
from tests.matrix import LONG

HOSTILE = '/runs/<b>x"\x1b[2J\n.pt'


@pytest.fixture(scope="module")
def run(tower_of_the_module: Any, run_of: Callable[[Any, str], str]) -> str:
    """A run with a good checkpoint, one with a hostile name, and one that was not written completely."""
    tower = tower_of_the_module
    spool = tower.directory / "spool"
    run = tocsin.watch(
        "checkpoints",
        name="saves",
        url=tower.base,
        token=tower.token,
        spool_dir=spool,
        quiet=True,
        patch=False,
    )
    for step in range(30):
        run.step(loss=1.0)
        if step in (5, 10):
            run.checkpoint("/runs/good.pt" if step == 10 else HOSTILE)
        if step == 20:
            run.event("checkpoint", path="/runs/torn.pt", complete=False, size=2_500_000)
    run.finish()
    return run_of(tower, "saves")


@LONG
def test_the_last_good_checkpoint_is_first_and_each_problem_is_named(
    run: str, visit: Callable[..., Any], tower_of_the_module: Any
) -> None:
    """A name from a file system is text, whatever it holds."""
    tab = visit(tower_of_the_module, None)
    tab.page.goto(f"{tower_of_the_module.base}/runs/{run}")
    tab.page.get_by_role("tab", name="Checkpoints").click()
    panel = tab.page.get_by_role("tabpanel", name="Checkpoints")
    panel.get_by_text("Last good checkpoint: good.pt (step 10").wait_for()
    rows = [row.inner_text() for row in panel.locator("tbody tr").all()]
    assert ["2.50 MB" in row and "was not written completely" in row for row in rows] == [True, False, False]
    assert '/runs/<b>x"\\u001b[2J\\u000a.pt' in rows[2]
