"""JSON documents: in any encoding, with their list under any name, or objects of several lines."""

from __future__ import annotations

import json

import pytest

from tests.hook.importers.conftest import Written, records
from tests.hook.importers.test_formats import Read

ROWS = [{"loss": 2.0 - step / 8, "step": step} for step in range(5)]
STATE = json.dumps({"global_step": 5, "log_history": ROWS, "note": "é", "max_steps": 9}, indent=2)
SEEN = [(step, {"loss": 2.0 - step / 8}) for step in range(5)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_document_is_read_in_the_encoding_of_its_mark(encoding: str, steps_of: Read) -> None:
    """As editors on Windows write it: a byte order mark, carriage returns."""
    text = ("\ufeff" if encoding == "utf-16-le" else "") + STATE.replace("\n", "\r\n")
    assert steps_of("trainer_state.json", text.encode(encoding)) == SEEN


def test_a_character_between_two_pieces_is_whole(written: Written) -> None:
    """Reading byte by byte gives the same records as reading everything at once."""
    log = written("trainer_state.json", STATE.encode("utf-16"))
    data = STATE.encode("utf-16")
    pieces = [item for at in range(len(data)) for item in log.stream.feed(data[at : at + 1])]
    assert [(item.step, item.values) for item in records([*pieces, *log.stream.end()])] == SEEN


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_under_any_name_is_found(indent: int | None, steps_of: Read) -> None:
    """In one line or in many."""
    assert steps_of("history.json", json.dumps({"run": "a", "history": ROWS}, indent=indent)) == SEEN


def test_objects_of_several_lines_are_records(steps_of: Read) -> None:
    """As ``jq`` prints them, one after another without an enclosing list."""
    assert steps_of("log.json", "\n".join(json.dumps(row, indent=2) for row in ROWS)) == SEEN
