"""Which parts of the environment are recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.core.environment_options import PARTS, USUAL, parts_of


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (None, USUAL),
        (True, USUAL),
        (False, set()),
        ("off", set()),
        ("", USUAL),
        (["diff", "-command"], (USUAL | {"diff"}) - {"command"}),
        ("DIFF, -gpu", (USUAL | {"diff"}) - {"gpu"}),
        ([f"-{part}" for part in PARTS], set()),
        ([], USUAL),
        (0, set()),
    ],
)
def test_every_part_can_be_switched(given: Any, parts: set[str]) -> None:
    assert parts_of(given, {}) == parts


def test_the_script_overrules_the_variable() -> None:
    environ = {"TOCSIN_ENVIRONMENT": "0"}
    assert parts_of(None, environ) == set()
    assert parts_of(True, environ) == USUAL


def test_an_unknown_part_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert parts_of(["gti", "-git"], {}) == USUAL - {"git"}
    assert 'unknown part "gti"' in caplog.text
