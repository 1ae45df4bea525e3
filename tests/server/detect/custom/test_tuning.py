"""Changed settings of built-in rules: parsed, and rejected by field."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Severity
from tocsin_server.detect.custom.tuning import Tuning, plain, read_tuning


def test_a_project_goes_before_all_projects() -> None:
    """Field by field, setting by setting."""
    everywhere = Tuning(False, Severity.INFO, {"relative": 0.5, "window": 100})
    mine = read_tuning("loss-spike", {"enabled": True, "settings": {"window": 50}})
    assert mine.over(everywhere) == Tuning(True, Severity.INFO, {"relative": 0.5, "window": 50})
    assert read_tuning("loss-spike", plain(mine)) == mine
    assert read_tuning("loss-spike", {"enabled": None, "severity": None}).says_nothing


@pytest.mark.parametrize(
    ("rule", "body", "field"),
    [
        ("nothing", {}, "rule"),
        ("loss-spike", {"enabled": 1}, "enabled"),
        ("loss-spike", {"severity": "page"}, "severity"),
        ("loss-spike", {"settings": {"nothing": 1}}, "settings.nothing"),
        ("loss-spike", {"settings": {"window": -1}}, "settings.window"),
        ("stalled", {"settings": {"warning_s": "NaN"}}, "settings.warning_s"),
        ("loss-spike", {"settings": []}, "settings"),
        ("loss-spike", {"colour": 1}, "colour"),
    ],
)
def test_invalid_fields_are_rejected_by_name(rule: str, body: dict[str, Any], field: str) -> None:
    """Clock-based rules have settings too."""
    with pytest.raises(FieldError) as reported:
        read_tuning(rule, body)
    assert reported.value.field == field
