"""Names of layers: bounded, readable, and summaries that lose no non-finite value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.capture.layer_names import MOST, NAME, NO_GRADIENT, folded, grouped, plain_names

PARTS = ("attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "mlp.up.weight", "mlp.down.weight")


def test_few_parameters_have_a_place_each() -> None:
    """Unchanged names, one entry per parameter."""
    assert grouped(["a.weight", "a.bias"]) == (["a.weight", "a.bias"], [0, 1])


def test_many_parameters_are_put_together_by_their_modules() -> None:
    """80 blocks of 5: as deep as 256 entries allow, which is two halves per block."""
    names = [f"blocks.{block}.{part}" for block in range(80) for part in PARTS]
    places, at = grouped(names)
    assert places[:3] == ["blocks.0.attn", "blocks.0.mlp", "blocks.1.attn"]
    assert (len(places), at[:6]) == (160, [0, 0, 0, 1, 1, 2])


@given(st.lists(st.text("ab.", max_size=9), min_size=1, max_size=700))
def test_there_are_never_more_places_than_allowed(names: list[str]) -> None:
    """For any names, every parameter has an entry within the limit."""
    places, at = grouped(names)
    assert len(places) <= MOST
    assert len(at) == len(names)
    assert set(at) == set(range(len(places)))


def test_wrappers_do_not_show() -> None:
    """torch.compile, FSDP and DDP add words to the script's names."""
    names = ["module._orig_mod.head.weight", "module._fsdp_wrapped_module.head.bias"]
    assert plain_names(names) == ["head.weight", "head.bias"]
    assert plain_names(["module.a", "b"]) == ["module.a", "b"]
    assert len(plain_names(["x." * 400])[0]) == NAME


@pytest.mark.parametrize(
    ("norms", "together"),
    [
        ([3.0, 4.0], 5.0),
        ([NO_GRADIENT, 4.0], 4.0),
        ([NO_GRADIENT, NO_GRADIENT], NO_GRADIENT),
        ([math.inf, 1.0], math.inf),
        ([math.inf, math.nan], math.nan),
        ([3e38, 3e38], 3.4028234663852886e38),
    ],
)
def test_a_fault_in_a_group_is_the_groups(norms: list[float], together: float) -> None:
    """NaN before +Inf before any number; large finite norms never become infinite."""
    assert folded(norms, [0, 0], 1) == pytest.approx([together], nan_ok=True)
