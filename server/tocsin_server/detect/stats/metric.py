"""Evaluation metrics: which direction is better, and which metrics are losses or in decibels."""

from __future__ import annotations

import re

MAX, MIN = "max", "min"
_MAX = frozenset(
    {
        "acc", "accuracy", "top", "psnr", "ssim", "bleu", "chrf", "rouge",
        "f", "map", "ap", "miou", "iou", "dice", "auc", "auroc",
        "recall", "precision", "r", "score", "exact_match", "em", "spearman", "pearson",
        "matthews",
    }
)  # fmt: skip
_MIN = frozenset(
    {
        "loss", "error", "err", "wer", "cer", "ter", "per", "ppl",
        "perplexity", "mae", "mse", "rmse", "nll", "fid", "lpips", "eer",
        "bpb",
    }
)  # fmt: skip


_EITHER = frozenset({"code", "codes", "codebook", "vq", "quantizer", "usage", "router", "gate"})
"""Words of metrics about the use of codes or experts, whose perplexity is better if it is higher."""


def goal_of(name: str, reported: str) -> str | None:
    """Return ``max`` or ``min`` as reported, else as the words in the name imply, else None."""
    if reported in (MAX, MIN):
        return reported
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    words = [word.rstrip("0123456789") for word in words]
    if any(word in _EITHER for word in words):
        return None
    if any(word in _MIN or word.endswith("loss") for word in words):
        return MIN
    return MAX if any(word in _MAX for word in words) else None


def is_loss(name: str) -> bool:
    """Return whether a metric is a held-out loss, which is compared with the training loss."""
    return "loss" in name.lower() or re.split(r"[^a-z0-9]+", name.lower())[-1] in ("nll", "ppl", "perplexity")


def is_decibel(name: str, unit: str) -> bool:
    """Return whether a metric is in dB, so that differences count instead of ratios."""
    return unit.lower() == "db" or "psnr" in name.lower() or "sdr" in name.lower()
