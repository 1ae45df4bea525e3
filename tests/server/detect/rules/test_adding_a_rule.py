"""The rule shown in CONTRIBUTING.md works when its file is the only thing that is added."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin_server.detect.engine import diagnosis
from tocsin_server.detect.rules import catalog, loss
from tocsin_server.detect.sdk import Severity

CONTRIBUTING = Path(__file__).parents[4] / "CONTRIBUTING.md"
LONGEST = 60
CACHES = (catalog.rule_modules, catalog._rules, catalog.rules_of, catalog.infos, diagnosis.candidates)


@pytest.fixture
def example() -> str:
    """Return the file shown in CONTRIBUTING.md."""
    shown = re.search(
        r"^    ```python\n(.*?)^    ```$", CONTRIBUTING.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert shown is not None
    return textwrap.dedent(shown[1])


@pytest.fixture
def added(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the file to the group ``loss``."""
    (tmp_path / "negative_loss.py").write_text(example, encoding="utf-8")
    monkeypatch.setattr(loss, "__path__", [*loss.__path__, str(tmp_path)])
    for cache in CACHES:
        cache.cache_clear()
    yield
    sys.modules.pop(f"{loss.__name__}.negative_loss", None)
    for cache in CACHES:
        cache.cache_clear()


def test_the_example_is_short(example: str) -> None:
    """A simple rule, with its imports and texts, takes fewer than 60 lines."""
    assert len(example.splitlines()) < LONGEST


@pytest.mark.usefixtures("added")
def test_a_rule_is_added_by_its_file(watch: Callable[..., Any]) -> None:
    """It fires, with its cause, and the catalogue describes it."""
    run = watch()
    run.records(loss=[0.1] * 5 + [-0.2] * 20)
    (finding,) = run.firing("negative-loss")
    assert (finding.onset_step, finding.step, finding.severity) == (5, 5, Severity.INFO)
    assert finding.summary == "Loss is −0.2 at step 5"
    assert finding.diagnosis.cause == "A term has the wrong sign."
    described = catalog.infos()["negative-loss"]
    assert described.title == "Loss is negative"
    assert "lowest" in [setting.name for setting in described.settings]


@pytest.mark.usefixtures("added")
def test_an_added_rule_resolves(watch: Callable[..., Any]) -> None:
    """The base class handles recovery."""
    run = watch()
    run.records(loss=[-0.2] * 20 + [0.1] * 400)
    assert run.states("negative-loss") == ["firing", "recovering", "resolved"]


def test_without_the_file_there_is_no_such_rule() -> None:
    """The rule of the example is not part of tocsin."""
    assert "negative-loss" not in catalog.infos()
