"""The layer in which a problem began, found from the vectors of gradient norms."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.layers import KEPT, LayerNorms, norms_of, origin

NAMES = ["stem.weight", "block.weight", "block.bias", "head.weight"]
NAN, INF = math.nan, math.inf


def _packed(norms: Sequence[float]) -> dict[str, str]:
    return {"dtype": "f4", "bdata": base64.b64encode(np.array(norms, "<f4").tobytes()).decode()}


def _book(*vectors: tuple[int, Sequence[float]], series: str = "") -> LayerNorms:
    book = LayerNorms({}, ()).learn("layer-names", 0, {"series": series, "table": 0, "names": NAMES})
    for step, norms in vectors:
        book = book.learn("layers", step, {"series": series, "table": 0, "norms": _packed(norms)})
    return book


def _sentences(book: LayerNorms, onset: int, subject: str = "loss") -> list[tuple[int, str]]:
    found = origin(book, "nonfinite-loss", subject, onset)
    return [] if found is None else [(step, text) for step, text, _ in found.timeline]


def test_the_layer_nearest_to_the_loss_is_where_it_began() -> None:
    """Infinities travel towards the input: the last of the layers that have one is named."""
    book = _book((4, [1, 1, 1, 1]), (8, [NAN, INF, 1, 1]), (9, [NAN, NAN, NAN, NAN]))
    ((step, text),) = _sentences(book, 8)
    assert step == 8
    assert "block.weight become non-finite first (+Inf), with 1 of the 1 layer before it" in text


def test_if_all_layers_fail_at_once_none_is_named() -> None:
    """A loss that is NaN makes every gradient NaN; a layer without gradient does not count."""
    book = _book((8, [NAN, NAN, -1.0, NAN]))
    assert "all 3 layers become non-finite at once, so the loss is the origin" in _sentences(book, 8)[0][1]


def test_earlier_growth_is_reported_with_its_onset() -> None:
    """The layer's own growth, from the step at which it left its usual level."""
    calm = [(step, [1.0, 1.0, 1.0, 1.0]) for step in range(0, 60, 10)]
    rising = [(60 + 10 * k, [1.0, 3.0 * 2**k, 1.0, 1.0]) for k in range(4)]
    sentences = _sentences(_book(*calm, *rising, (100, [NAN, INF, 1, 1])), 100)
    assert sentences[1] == (60, "Gradients of block.weight grow 24x, 1 → 24")


def test_another_optimizers_layers_are_its_own() -> None:
    """An alert about ``loss/D`` looks at the vectors of ``D``, where there are any."""
    book = _book((8, [NAN, NAN, NAN, NAN]), series="D")
    assert _sentences(book, 8, "loss/D")
    assert not _sentences(book, 8, "loss")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"norms": None},
        {"norms": {"dtype": "f8", "bdata": ""}},
        {"norms": {"dtype": "f4", "bdata": "%%"}},
        {"norms": _packed([1.0])},
        {"table": "x", "norms": _packed([1.0, 1.0])},
    ],
)
def test_invalid_vectors_are_ignored(data: dict[str, Any]) -> None:
    """Malformed events raise no error and are ignored."""
    assert _book().learn("layers", 3, data).vectors == ()
    assert LayerNorms({}, ()).learn("layer-names", 0, {"names": "abc"}).names == {}


def test_the_bits_of_a_norm_survive() -> None:
    """NaN with its sign, infinities and the smallest number."""
    bits = np.array([0xFFC12345, 0x7F800000, 0xFF800000, 1], np.uint32).view(np.float32)
    norms = norms_of({"dtype": "f4", "bdata": base64.b64encode(bits.tobytes()).decode()})
    assert norms is not None
    assert np.array(norms, np.float32).tobytes() == bits.tobytes()


def test_memory_is_bounded() -> None:
    """The newest vectors are remembered."""
    book = _book(*((step, [1.0, 1.0, 1.0, 1.0]) for step in range(2 * KEPT)))
    assert [book.vectors[0].step, len(book.vectors)] == [KEPT, KEPT]


def _tell(run: Any) -> None:
    run.event("layer-names", 0, series="", table=0, names=NAMES)
    for step in range(0, 60, 10):
        run.event("layers", step, series="", table=0, why="sample", norms=_packed([1, 1, 1, 1]))
    run.event("layers", 60, series="", table=0, why="nonfinite", norms=_packed([NAN, INF, 1, 1]))


@pytest.mark.parametrize("first", [True, False])
def test_the_timeline_of_an_alert_names_the_layer(watch: Callable[..., Any], first: bool) -> None:
    """Whether the vectors arrive before or after the record; those from a device arrive after it."""
    run = watch()
    run.records(loss=[1.0 - 0.001 * step for step in range(60)], grad_norm=[1.0] * 60)
    if first:
        _tell(run)
    run.records(start=60, loss=[NAN], grad_norm=[NAN])
    if not first:
        assert not any(text.startswith("Gradients") for _, text, _ in run.findings[-1].diagnosis.timeline)
        _tell(run)
    diagnosis = [one for one in run.findings if one.rule == "nonfinite-loss"][-1].diagnosis
    assert (60, "block.weight") in [
        (one.step, one.value) for one in diagnosis.evidence if one.name == "layer"
    ]
    assert any(step == 60 and "block.weight" in text for step, text, _ in diagnosis.timeline)
    run.records(start=61, loss=[NAN] * 40, grad_norm=[NAN] * 40)
    last = [one for one in run.findings if one.rule == "nonfinite-loss"][-1].diagnosis
    assert [one for one in last.timeline if "block.weight" in one[1]]


def test_layers_survive_a_restart_of_the_server(watch: Callable[..., Any]) -> None:
    """They are part of the snapshot."""
    run = watch()
    run.records(loss=[1.0] * 60)
    _tell(run)
    run.engine = Engine.restore(run.engine.context, run.engine.save())
    run.records(start=60, loss=[NAN], grad_norm=[NAN])
    assert "block.weight" in str(run.findings[-1].diagnosis.timeline)
