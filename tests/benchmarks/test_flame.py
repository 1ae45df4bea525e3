"""The flame graphs: which samples are the hook's, and what the picture says about them."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.flame import SENDER, TRAINING, graph, svg

MAIN = "main (flame.py:1);step (/x/benchmarks/loops.py:9)"
SAMPLES = [
    f"{MAIN};forward (torch/nn.py:3) 60",
    f"{MAIN};step (torch/optim.py:3);after (tocsin/capture/hook.py:7) 25",
    f"{MAIN};wrapped (tocsin/capture/hook.py:8);step (torch/optim.py:3) 10",
    f"{MAIN};wrapped (tocsin/capture/hook.py:8);step (torch/optim.py:3);after (tocsin/capture/hook.py:7) 5",
    "run (threading.py:9);send (tocsin/transport/sender.py:4) 20",
    "run (threading.py:9);wait (torch/pool.py:4) 500",
]


def test_torch_below_a_wrapper_is_no_cost_of_the_hook() -> None:
    """Nor is it hidden there: what the hook does within that function counts."""
    root, training = graph(SAMPLES)
    assert training == 100
    assert root.below[TRAINING].count == 30
    assert set(root.below[TRAINING].below) == {"after (hook)"}


def test_the_senders_thread_is_counted_apart() -> None:
    """A thread without a function of the hook is left out."""
    root, _ = graph(SAMPLES)
    assert root.below[SENDER].count == 20
    assert root.count == 50


def test_a_box_says_how_long_its_function_takes_per_step() -> None:
    """30 of 100 samples of a step of 1000 us are 300 us."""
    picture = ElementTree.fromstring(svg(*graph(SAMPLES), 1000.0))
    titles = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert "after (hook): 300.0 us a step" in titles
    assert f"{SENDER}: 200.0 us a step" in titles


def test_names_are_escaped_and_small_boxes_left_out() -> None:
    """`<lambda>` is a usual name of a function."""
    text = svg(*graph([f"{MAIN};<lambda> (tocsin/a.py:1) 999", f"{MAIN};rare (tocsin/a.py:2) 1"]), 10.0)
    assert "&lt;lambda&gt; (a)" in text
    assert "rare" not in text
