"""What differs between two runs: what is compared, how it is ranked and counted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tocsin_server.core.run_changes import (
    LONGEST,
    Change,
    differences,
    likeness,
    not_recorded,
    ranked,
    setup_of,
    shortened,
    stem,
    texts_of,
    value_text,
)

CONFIG = {"lr": 1e-3, "model": {"width": 64}, "seed": 1}


def changed(before: Any, after: Any) -> list[tuple[str, str, str | None, str | None]]:
    """Return the differences of two configurations or environments."""
    found = differences(before, after)
    return [(each.category.value, each.name, each.before, each.after) for each in found]


def test_settings_are_compared_by_path() -> None:
    """Nested settings are compared too; NaN equals NaN."""
    assert texts_of({"a": {"b": math.nan}, "c": [1]}) == {"a.b": "nan", "c": "[1]"}
    assert stem("resnet_12") == "resnet"


def test_a_setting_that_exists_in_one_run_only_differs() -> None:
    before, after = setup_of(CONFIG, {}), setup_of(CONFIG | {"lr": 0.3, "amp": True}, {})
    assert changed(before, after) == [("config", "amp", None, "True"), ("config", "lr", "0.001", "0.3")]


def test_a_number_and_its_text_differ() -> None:
    assert [value_text(each) for each in (1, "1", "nan", "adam", None, "none", True, "True")] == [
        "1", "'1'", "'nan'", "adam", "none", "'none'", "True", "'True'",
    ]  # fmt: skip


def test_what_one_of_two_did_not_report_is_named_and_not_compared() -> None:
    before = setup_of(CONFIG, {"git": {"commit": "a" * 40}})
    after = setup_of(CONFIG, {"packages": {"torch": "2.6"}})
    assert changed(before, after) == []
    assert not_recorded(before, after) == ("command line", "git commit", "GPUs", "packages")


@pytest.mark.parametrize(
    ("found", "unknown"),
    [({"dirty": False}, {"dirty": None}), ({"dirty": True, "digest": "1f"}, {"dirty": True})],
)
def test_uncommitted_changes_that_git_had_no_time_to_read_are_no_difference(
    found: dict[str, Any], unknown: dict[str, Any]
) -> None:
    before = setup_of(CONFIG, {"git": {"commit": "a" * 40, **found}})
    after = setup_of(CONFIG, {"git": {"commit": "a" * 40, **unknown}})
    assert changed(before, after) == changed(after, before) == []


def test_code_hardware_schedule_and_versions_are_compared() -> None:
    optimizer = {"name": "G", "class": "Adam", "module": "torch", "defaults": {"lr": 0.1}}
    schedule = {"optimizer": "G", "scheduler": "StepLR", "arguments": {"step_size": 5, "last_epoch": 3}}
    before = setup_of(
        None,
        {
            "git": {"commit": "a", "branch": "main", "dirty": False},
            "gpus": [{"name": "H100", "memory_gib": 80.0, "count": 2}],
            "optimizers": [optimizer],
            "schedulers": [schedule],
            "versions": {"torch": "2.5"},
            "data": {"train": "c4@1"},
        },
        planned_steps=100,
    )
    after = setup_of(
        None,
        {
            "git": {"commit": "b", "branch": "main", "dirty": True, "digest": "1f"},
            "gpus": [{"name": "A100", "memory_gib": 40.0}],
            "optimizers": [optimizer | {"defaults": {"lr": 0.2}}],
            "schedulers": [schedule | {"arguments": {"step_size": 9, "last_epoch": 70}}],
            "versions": {"torch": "2.6"},
            "data": {"train": "c4@2"},
        },
        planned_steps=200,
    )
    assert changed(before, after) == [
        ("schedule", "planned steps", "100", "200"),
        ("schedule", "optimizer.G.defaults.lr", "0.1", "0.2"),
        ("schedule", "scheduler.G.arguments.step_size", "5", "9"),
        ("data", "train", "c4@1", "c4@2"),
        ("code", "commit", "a", "b"),
        ("code", "uncommitted changes", "no", "yes (1f)"),
        ("hardware", "GPU memory", "80 GiB", "40 GiB"),
        ("hardware", "GPUs", "2 x H100", "1 x A100"),
        ("versions", "torch", "2.5", "2.6"),
    ]


def test_options_of_the_command_line_are_compared_by_name() -> None:
    """An option that changes a setting of the configuration is named once."""
    before = setup_of({"lr": 0.1}, {"command": ["train.py", "--lr", "0.1", "--fast", "a", "model.width=2"]})
    after = setup_of({"lr": -1.0}, {"command": ["train.py", "--lr", "-1.0", "b", "model.width=4"]})
    assert changed(before, after) == [
        ("config", "lr", "0.1", "-1.0"),
        ("config", "--fast", "a", None),
        ("config", "argument 1", None, "b"),
        ("config", "model.width", "2", "4"),
    ]


def test_one_change_is_named_once() -> None:
    """A rate of the configuration that is also an argument, the optimizer's and its scheduler's."""

    def setup(lr: float) -> Any:
        described = {"class": "Adam", "defaults": {"lr": lr}}
        return setup_of(
            {"train": {"rate": lr}},
            {
                "command": ["train.py", str(lr)],
                "optimizers": [{"name": "", **described}, {"name": "opt1", **described}],
                "schedulers": [{"optimizer": "opt1", "scheduler": "StepLR", "arguments": {"base_lrs": [lr]}}],
            },
        )

    assert changed(setup(0.1), setup(0.2)) == [("config", "train.rate", "0.1", "0.2")]
    before, after = ({"versions": {"torch": v}, "packages": {"torch": v}} for v in ("2.5", "2.6"))
    assert changed(setup_of(None, before), setup_of(None, after)) == [("versions", "torch", "2.5", "2.6")]


def test_an_optimizer_without_a_name_is_compared_if_none_has_one() -> None:
    before, after = ({"optimizers": [{"name": "", "class": name}]} for name in ("SGD", "Adam"))
    assert changed(setup_of(None, before), setup_of(None, after)) == [
        ("schedule", "optimizer.0.class", "SGD", "Adam")
    ]


def test_a_setting_that_only_failing_runs_have_comes_first() -> None:
    """A seed differs between healthy runs too, so it comes last."""
    mine = setup_of(CONFIG | {"seed": 9, "lr": 0.3, "eval_every": 7}, {})
    failing = [mine, setup_of(CONFIG | {"seed": 7, "lr": 0.3}, {})]
    healthy = [setup_of(CONFIG | {"seed": 1, "eval_every": 7}, {})] * 2
    healthy += [setup_of(CONFIG | {"seed": seed}, {}) for seed in range(2, 6)]
    found = ranked(differences(healthy[3], mine), failing, healthy)
    assert [each.name for each in found] == ["lr", "eval_every", "seed"]
    lr, every, seed = (each.counts for each in found)
    assert lr
    assert every
    assert seed
    assert lr.only_failing
    assert lr.text == ("Differs in all 2 failing runs and in none of the 6 healthy runs of this project.")
    assert every.text == "1 of 2 failing runs and 2 of 6 healthy runs have this value."
    assert seed.text == "Also differs between healthy runs."


def test_failing_runs_may_differ_from_the_healthy_ones_in_different_ways() -> None:
    """All healthy runs have one value, each failing run another one."""
    failing = [setup_of({"lr": lr}, {}) for lr in (3.0, 5.0)]
    healthy = [setup_of({"lr": 0.1}, {})] * 2
    (found,) = ranked(differences(healthy[0], failing[0]), failing, healthy)
    assert found.counts
    assert found.counts.only_failing


@pytest.mark.parametrize(("failing", "healthy"), [(1, 5), (5, 1), (1, 1)])
def test_one_run_proves_nothing(failing: int, healthy: int) -> None:
    bad, good = setup_of({"lr": 3.0}, {}), setup_of({"lr": 0.1}, {})
    (found,) = ranked(differences(good, bad), [bad] * failing, [good] * healthy)
    assert found.counts
    assert not found.counts.only_failing


def test_likeness_is_the_share_of_equal_settings() -> None:
    mine = setup_of(CONFIG, {})
    assert likeness(mine, setup_of(CONFIG | {"lr": 1.0}, {})) == pytest.approx(2 / 3)
    assert likeness({}, {}, ("net-1", "net-2")) == 1.0
    assert likeness({}, {}, ("net-1", "other")) == 0.0
    assert likeness(mine, {}, ("net-1", "net-1")) == 0.0


def test_long_values_are_cut_around_the_difference() -> None:
    before, after = shortened("x" * 5000 + "a" + "z" * 5000, "x" * 5000 + "b")
    assert before
    assert after
    assert len(before) <= LONGEST + 2
    assert (before[41], after[41]) == ("a", "b")


@pytest.mark.parametrize("damaged", ["text", [1], {"name": 3}, [{"a": 1}], 5])
def test_damaged_environments_are_read(damaged: Any) -> None:
    """Whatever a client sent as a member, the others are compared."""
    names = ("git", "gpus", "driver", "command", "packages", "data", "optimizers", "schedulers", "versions")
    found = setup_of({"lr": 1}, dict.fromkeys(names, damaged))
    assert differences(setup_of({"lr": 2}, {}), found)[0].name == "lr"


def test_a_change_of_a_whole_source_is_plain() -> None:
    (found,) = differences({"git": {"commit": "a"}}, {"git": {"commit": "b"}})
    assert isinstance(found, Change)
    assert found.shown == ("a", "b")
