"""Figures of matplotlib as images."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import Tower
from tests.matrix import LONG
from tests.real_trainers.claims import ALL
from tests.real_trainers.comparison import environment

SCRIPT = """
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
from tocsin import Image

figure, axes = pyplot.subplots()
axes.plot([1, 2])
for each in (figure, axes, pyplot):
    image = Image(each)
    print(image.problem or image.content(str)[1]["mime"])
"""


@LONG
def test_a_figure_its_axes_and_pyplot_are_images(shared_tower: Tower) -> None:
    variables = environment(shared_tower, ALL)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["image/png"] * 3
