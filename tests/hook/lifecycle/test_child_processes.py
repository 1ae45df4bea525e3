"""A parent that calls ``watch`` and trains in child processes: their steps belong to its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Tower, wait_for
from tests.hook.launched import free_port
from tests.hook.lifecycle.parent import STEPS
from tests.hook.test_launchers import ranks_of
from tests.matrix import LONG

SCRIPT = str(Path(__file__).with_name("parent.py"))


@pytest.mark.parametrize(
    ("method", "is_group"),
    [
        ("fork", True),
        pytest.param("spawn", True, marks=LONG),
        pytest.param("fork", False, marks=LONG),
        pytest.param("forkserver", False, marks=LONG),
    ],
)
def test_children_report_to_the_parents_run(shared_tower: Tower, method: str, is_group: bool) -> None:
    """Two children are two ranks of one attempt, each with all its steps; the run ends with the parent."""
    name = f"children-{method}-{is_group}"  # test_launchers.py uses the same server
    runs, ranks = ranks_of(shared_tower, name, SCRIPT, name, method, str(free_port() if is_group else 0))
    assert (len(runs), ranks) == (1, [(1, 0), (1, 1)])
    (run,) = runs
    records = [one for one in shared_tower.records(run) if "loss" in one["values"]]
    assert sorted((one["rank"], one["step"]) for one in records) == [
        (rank, step) for rank in range(2) for step in range(STEPS)
    ]
    facts = wait_for(lambda: shared_tower.get(f"/runs/{run}"), "the run")
    assert (facts["state"], facts["config"]) == ("finished", {"depth": 3})


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=LONG)])
def test_a_parent_that_trains_keeps_its_rank(shared_tower: Tower, method: str) -> None:
    """Its children are the ranks after its own, so that no series mixes two trainings."""
    name = f"parent-trains-{method}"
    (run,), _ = ranks_of(shared_tower, name, SCRIPT, name, method, "0", "trains")
    wanted = [(rank, step) for rank in range(3) for step in range(STEPS)]

    def steps() -> list[tuple[int, int]]:
        records = [one for one in shared_tower.records(run) if "loss" in one["values"]]
        return sorted((one["rank"], one["step"]) for one in records)

    wait_for(lambda: steps() == wanted, "the steps of three processes")
