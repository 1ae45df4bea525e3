"""``run.config`` and ``run.summary`` change after the start; alerts of the script are events."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import pytest

from tests.hook.captured import watched
from tocsin.api.facts import MOST, Facts
from tocsin.api.no_run import NoRun


def test_a_changed_setting_is_reported_and_is_in_the_next_handshake() -> None:
    """Only what changed is sent; what a reconnect sends has all of it."""
    with watched(config={"lr": 0.1, "depth": 2}) as (run, outbox):
        run.config.update(argparse.Namespace(batch=32, lr=0.1), allow_val_change=True)
        run.config.depth = 3
        assert outbox.events("environment") == [
            {"step": None, "config": {"batch": 32}},
            {"step": None, "config": {"depth": 3}},
        ]
        assert run._run_info.config == run.config.as_dict() == {"lr": 0.1, "depth": 3, "batch": 32}


def test_defaults_change_no_setting() -> None:
    """As in W&B's ``config.setdefaults``."""
    with watched(config={"lr": 0.1}) as (run, outbox):
        run.config.setdefaults({"lr": 1.0, "depth": 2})
        assert outbox.events("environment") == [{"step": None, "config": {"depth": 2}}]
        assert run.config.as_dict() == {"lr": 0.1, "depth": 2}


def test_secrets_stay_with_the_script() -> None:
    """The script reads its own value, the server gets none."""
    with watched(config={"api_key": "k1"}) as (run, outbox):
        run.config["password"] = "p1"
        assert (run.config["api_key"], run.config["password"]) == ("k1", "p1")
        assert outbox.events("environment") == [{"step": None, "config": {"password": "[redacted]"}}]
        assert set(run._run_info.config.values()) == {"[redacted]"}


def test_a_summary_is_reported_once_for_each_change() -> None:
    with watched() as (run, outbox):
        run.summary["best"] = 0.5
        run.summary["best"] = 0.5
        run.summary.update({"best": math.inf, "at": "step 3"})
        assert outbox.events("environment") == [
            {"step": None, "summary": {"best": 0.5}},
            {"step": None, "summary": {"best": math.inf, "at": "step 3"}},
        ]


def test_the_number_of_reported_names_is_bounded() -> None:
    """The script itself reads all of them."""
    reported: dict[str, Any] = {}
    facts = Facts({"first": 0}, reported.update)
    facts.update({f"name{k}": k for k in range(MOST + 10)})
    facts["one more"] = 1
    facts["name0"] = "changed"
    assert (len(reported), reported["name0"], facts["one more"]) == (MOST - 1, "changed", 1)


def test_the_script_reads_the_objects_that_it_stored() -> None:
    with watched() as (run, outbox):
        run.config.path = Path("data")
        assert run.config.path == Path("data")
        assert outbox.events("environment") == [{"step": None, "config": {"path": "data"}}]


def test_a_missing_setting_is_named_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no value named .depth.*: lr"):
        _ = Facts({"lr": 0.1}, lambda changed: None).depth


class Interpolated(dict[str, Any]):
    """As OmegaConf's ``DictConfig``: a setting may refer to what is not there."""

    def __getitem__(self, name: str) -> Any:
        if name == "home":
            raise LookupError("environment variable not found")
        return super().__getitem__(name)

    def items(self) -> Any:
        """Read all settings."""
        return [(name, self[name]) for name in self]


def test_a_setting_that_cannot_be_read_is_marked() -> None:
    """The run begins all the same."""
    marked = "<could not be read: LookupError>"
    with watched(config=Interpolated(lr=0.1, home="")) as (run, _):
        assert run.config.as_dict() == run._run_info.config == {"lr": 0.1, "home": marked}


@pytest.mark.parametrize("config", [{"lr": 0.1}, argparse.Namespace(lr=0.1)])
def test_a_run_that_is_switched_off_has_its_settings(config: Any) -> None:
    """A script that reads its settings from the run still works."""
    run = NoRun("p", "n", config)
    run.config.update({"depth": 3})
    run.summary["best"] = 1
    assert run.config.as_dict() == {"lr": 0.1, "depth": 3}


@pytest.mark.parametrize(
    ("given", "severity"),
    [({}, "warning"), ({"severity": "critical"}, "critical"), ({"level": "WARN"}, "warning")],
)
def test_an_alert_of_the_script_is_an_event(given: dict[str, Any], severity: str) -> None:
    with watched() as (run, outbox):
        run.log(loss=1.0, step=7)
        run.alert("disk nearly full", "3 GB left", **given)
        (event,) = outbox.events("alert")
        assert event == {"step": 7, "title": "disk nearly full", "text": "3 GB left", "severity": severity}


def test_an_unknown_severity_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with watched() as (run, outbox):
        run.alert("odd", severity="huge")
        assert outbox.events("alert")[0]["severity"] == "warning"
    expected = 'expected "info", "warning" or "critical". The alert is a warning.'
    assert f'tocsin: run.alert: severity is "huge", {expected}' in caplog.text


def test_an_alert_whose_text_cannot_be_written_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    text: Any = Silent()
    with watched() as (run, outbox):
        run.alert("odd", text)
        assert outbox.events("alert") == []
    assert "run.alert: its title or text cannot be read (RuntimeError). The alert is left out." in caplog.text
