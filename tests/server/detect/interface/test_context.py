"""Tests of the metadata of a run that rules read."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.detect.interface.context import CHECKPOINTS, EXPECTED, NAMES, RunContext, ScalerSettings


def test_healthy_rate_at_the_defaults() -> None:
    """ln 2 / 2000, one overflow in about 2900 updates."""
    assert math.isclose(ScalerSettings().healthy_rate, math.log(2) / 2000)


@pytest.mark.parametrize(
    "plain", [{"growth_factor": 1.0}, {"growth_interval": 0}, {"backoff_factor": 2.0}, {"growth_factor": "x"},
             {"init_scale": math.nan}, {"growth_interval": math.inf}, {"growth_interval": True}],
)  # fmt: skip
def test_invalid_settings_are_ignored(plain: dict[str, Any]) -> None:
    """Values of a client must not cause a division by zero."""
    assert ScalerSettings.from_plain(plain) == ScalerSettings()


def test_scalers_by_name() -> None:
    """Each optimizer's own scaler, else the first."""
    context = RunContext(scalers=[{"name": "G", "growth_interval": 100}, {"name": "D", "growth_interval": 7}])
    intervals = [
        scaler_settings.growth_interval
        for name in ("", "G", "D", "E")
        if (scaler_settings := context.scaler(name))
    ]
    assert intervals == [100, 100, 7, 100]
    assert RunContext().scaler("") is None


def test_disabled_scalers_are_none() -> None:
    """A scaler that is reported as disabled does not exist; an unreported one is unknown."""
    assert RunContext(scalers=[{"enabled": False}]).has_scaler is False
    assert RunContext().has_scaler is None


def test_events_refine_it() -> None:
    """Sources of norms, declared changes and checkpoints; other events have no effect."""
    context = RunContext().learn("grad-norm-source", None, {"optimizer": "D", "source": "own"})
    context = context.learn("grad-norm-source", 0, {"optimizer": "opt1", "series": "", "clip": 1.0})
    assert context.clips == {"D": None, "": 1.0}
    context = context.learn("expect", None, {"what": "lr-restart", "steps": [500, 1000]})
    assert context.norm_sources == {"D": "own", "": ""}
    assert context.expected == {"lr-restart": (500, 1000)}
    assert context.learn("phase", 3, {"name": "eval"}) is context


def test_checkpoints_are_bounded() -> None:
    """The newest are kept, and the newest before a step is found."""
    context = RunContext()
    for step in range(CHECKPOINTS + 10):
        context = context.learn("checkpoint", step, {"path": f"{step}.pt"})
    assert len(context.checkpoints) == CHECKPOINTS
    assert context.checkpoint_before(20) == (20, "20.pt")
    assert context.checkpoint_before(3) is None


def test_checkpoints_of_an_earlier_attempt_are_not_named() -> None:
    """The earlier attempt may have failed before it saved them; the server knows from when its alerts are."""
    context = RunContext().learn("attached", None, {}, attempt=1)
    context = context.learn("checkpoint", 20, {"path": "20.pt"}, attempt=1)
    assert context.last_good_checkpoint(50) == Checkpoint("20.pt", 20, attempt=1)
    again = RunContext().relearn(context.learn("attached", None, {}, attempt=2).learned())
    assert again.last_good_checkpoint(50) is None
    again = again.learn("checkpoint", 30, {"path": "30.pt"}, attempt=2)
    assert again.last_good_checkpoint(50) == Checkpoint("30.pt", 30, attempt=2)


def test_the_precision_of_a_series_is_kept_until_it_is_in_full() -> None:
    """Also in a snapshot; a quantum that is no positive number means nothing."""
    context = RunContext().learn("precision", None, {"name": "loss", "quantum": 0.1})
    assert RunContext().relearn(context.learned()).quanta == {"loss": 0.1}
    for odd in (math.nan, -1.0, "0.1", None):
        assert RunContext().learn("precision", None, {"name": "loss", "quantum": odd}).quanta == {}
    assert context.learn("precision", None, {"name": "loss", "quantum": 0}).quanta == {}
    bounded = RunContext()
    for number in range(NAMES + 10):
        bounded = bounded.learn("precision", None, {"name": f"val/{number}", "quantum": 0.1})
    assert len(bounded.quanta) == NAMES


def test_a_snapshot_keeps_what_events_added() -> None:
    """Values of a newer handshake replace those of the snapshot."""
    context = RunContext(scalers=[{"growth_interval": 5}]).learn("checkpoint", 7, {"path": "7.pt"})
    context = context.learn("checkpoint", 8, {"path": "8.pt"}).learn(
        "checkpoint-removed", None, {"path": "8.pt"}
    )
    again = RunContext(scalers=[{"growth_interval": 9}]).relearn(context.learned())
    assert again.checkpoints == (Checkpoint("7.pt", 7),)
    assert again.scalers == ({"growth_interval": 9},)


ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "steps",
    "what",
    "path",
    "optimizers",
    "scalers",
    "schedulers",
    "optimizer",
    "series",
    "source",
    "clip",
)
KINDS = (
    "expect",
    "checkpoint",
    "attached",
    "grad-norm-source",
    "schedule",
    "loss-components",
    "metric",
    "precision",
)


@given(
    st.sampled_from([*KINDS, "nonfinite-input", "similar-runs", "layers", "layer-names"]),
    st.dictionaries(
        st.sampled_from([*FIELDS, "names", "name", "goal", "inputs", "runs", "norms", "table", "quantum"]),
        ODD,
    ),
)
def test_unexpected_events_are_ignored(kind: str, data: dict[str, Any]) -> None:
    """A script may send any data under any kind."""
    learnt = RunContext().learn(kind, 5, data)
    assert learnt.learn("expect", 5, {"what": "eval", "steps": [math.nan, math.inf, 7.0, "x"]}).expected[
        "eval"
    ] == (7,)


def test_declared_steps_are_bounded() -> None:
    """The newest are kept."""
    learnt = RunContext().learn("expect", None, {"what": "eval", "steps": list(range(EXPECTED + 10))})
    assert learnt.expected["eval"] == tuple(range(10, EXPECTED + 10))
