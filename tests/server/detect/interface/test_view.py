"""Tests of how a batch is split into streams."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin_server.core.models import Column, RecordBatch, Writer
from tocsin_server.detect.interface.view import layout, split, split_name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("loss", ("loss", "")),
        ("scale/D", ("scale", "D")),
        ("lr/g1", ("lr/g1", "")),
        ("lr/D/g2", ("lr/g2", "D")),
        ("loss/0", ("loss", "0")),
        ("val/psnr", None),
        ("fft_loss", None),
        ("<b>loss</b>", None),
    ],
)
def test_names(name: str, known: tuple[str, str] | None) -> None:
    """Base name and optimizer; other metrics of the script have neither."""
    assert split_name(name) == known


def test_two_optimizers_in_turn() -> None:
    """Each stream holds its own records, in order, with the primary's step."""
    rows = np.array([0, 2], dtype=np.uint32), np.array([1, 3], dtype=np.uint32)
    batch = RecordBatch(
        writer=Writer("r_1", 1, 1, 0),
        arrival=0,
        seq=0,
        n=4,
        step=np.array([5, 5, 6, 6]),
        time_ns=np.array([1, 2, 3, 4]),
        columns={
            "loss": Column(np.array([1.0, 2.0]), rows[0]),
            "loss/D": Column(np.array([-1.0, -2.0]), rows[1]),
            "lr/D": Column(np.array([0.1]), rows[1][:1]),
            "extra": Column(np.array([9.0] * 4)),
        },
    )
    views = split(batch, layout(tuple(batch.columns), ()))
    assert list(views) == ["", "D"]
    assert (views[""].loss, views[""].step, list(views[""].rows)) == ([1.0, 2.0], [5, 6], [0, 2])
    assert (views["D"].loss, views["D"].lr, views["D"].time_ns) == ([-1.0, -2.0], [0.1, None], [2, 4])
