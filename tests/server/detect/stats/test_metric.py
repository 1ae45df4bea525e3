"""Tests of what is known of evaluation metrics by their names."""

from __future__ import annotations

import pytest

from tocsin_server.detect.stats.metric import goal_of, is_decibel, is_loss


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("accuracy", "max"), ("top5_acc", "max"), ("SSIM", "max"), ("f1", "max"), ("eval/bleu4", "max"),
        ("wer", "min"), ("ctc_loss", "min"), ("valloss", "min"), ("perplexity", "min"), ("error_rate", "min"),
        ("thing", None), ("lr", None),
    ],
)  # fmt: skip
def test_the_goal_follows_from_the_name(name: str, goal: str | None) -> None:
    """By whole words; None for unknown names."""
    assert goal_of(name, "") == goal


def test_a_reported_goal_overrides_the_name() -> None:
    """A score that should fall."""
    assert goal_of("score", "min") == "min"


def test_losses_and_decibels_are_recognised() -> None:
    """By name or unit."""
    assert is_loss("val/ctc_loss")
    assert not is_loss("val/wer")
    assert is_decibel("val/psnr", "")
    assert is_decibel("val/quality", "dB")
    assert not is_decibel("val/ssim", "")
