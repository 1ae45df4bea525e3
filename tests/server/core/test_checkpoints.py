"""Which checkpoint is good to resume from, and the sentence that says so."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.checkpoints import (
    KINDS,
    LONGEST_PATH,
    MOVED,
    REMOVED,
    SAVED,
    WEIGHTS,
    Checkpoint,
    Trouble,
    after_event,
    last_good_checkpoint,
    problem_of,
)

SECOND = 10**9
MOST = 5


def saved(step: int, path: str = "", **fields: Any) -> Checkpoint:
    """Return a checkpoint that was written at ``step`` seconds after 14:00 UTC."""
    path = path or f"/runs/ckpt_{step}.pt"
    return Checkpoint(**{"path": path, "step": step, "time_ns": at(step), "complete": True, **fields})


def at(step: int) -> int:
    return (14 * 3600 + step) * SECOND


def folded(*events: tuple[str, int | None, dict[str, Any]]) -> tuple[Checkpoint, ...]:
    known: tuple[Checkpoint, ...] = ()
    for kind, step, data in events:
        known = after_event(known, kind, step, data, most=MOST)
    return known


NAN_AT_2997 = Trouble(WEIGHTS, 2997, at(2997), None)


def test_the_sentence_of_the_last_good_checkpoint() -> None:
    """Step, distance and time; and what is known about the newer one. Without an incident, the problem that
    is meant is named by its step."""
    found = last_good_checkpoint([saved(120), saved(2900), saved(3000)], None, [NAN_AT_2997])
    assert found.checkpoint == saved(2900)
    assert found.text == (
        "ckpt_2900.pt (step 2900, 97 steps before the problem at step 2997, 14:48 UTC); "
        "ckpt_3000.pt was written after it and holds NaN weights."
    )


def test_nan_weights_are_only_claimed_where_they_are_known() -> None:
    """A divergence does not say so."""
    found = last_good_checkpoint(
        [saved(2900), saved(3000)], None, [NAN_AT_2997._replace(rule="loss-divergence")]
    )
    assert found.text.endswith("; ckpt_3000.pt was written after the onset.")


def test_without_an_onset_the_newest_is_good() -> None:
    """Nothing is said about an onset."""
    found = last_good_checkpoint([saved(100), saved(200)])
    assert found.text == "ckpt_200.pt (step 200, 14:03 UTC)."


@pytest.mark.parametrize(
    ("step", "problem"),
    [(2995, ""), (2996, "is followed by no healthy step"), (2997, "was written after the onset")],
)
def test_a_step_must_have_used_its_weights(step: int, problem: str) -> None:
    """Step 2996 was computed with the weights after 2995, which are finite; those after 2996 may be NaN."""
    assert problem_of(saved(step), 2997) == problem
    assert problem_of(saved(step), None, [NAN_AT_2997]) == problem.replace(
        "was written after the onset", "holds NaN weights"
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"complete": False}, "was not written completely"),
        ({"complete": None}, ""),
        ({"holds": ("optimizer",)}, "holds no model"),
        ({"holds": ("model",)}, ""),
        ({"cut": True}, "has no complete path"),
    ],
)
def test_unusable_checkpoints_are_not_offered(fields: dict[str, Any], problem: str) -> None:
    found = last_good_checkpoint([saved(100), saved(200, **fields)])
    assert problem_of(saved(200, **fields), None) == problem
    assert found.checkpoint is not None
    assert found.checkpoint.step == (100 if problem else 200)


def test_a_run_that_recovered_is_good_again() -> None:
    """Also a new attempt after one that ended in NaN, which starts before the onset."""
    ended = NAN_AT_2997._replace(end_ns=at(3050))
    again = saved(2950, "/runs/second_2950.pt", time_ns=at(4000), attempt=2)
    found = last_good_checkpoint([saved(2900), saved(3000), again], None, [ended])
    assert found.checkpoint == again
    assert problem_of(saved(3000), None, [ended]) == "holds NaN weights"


def test_the_most_complete_file_of_a_step_is_chosen() -> None:
    """A generator and a discriminator, or weights and a full state, saved at the same step."""
    whole = saved(200, "/runs/state.pt", holds=("model", "optimizer"), size=9)
    small = saved(200, "/runs/ema.pt", holds=("model",), size=90)
    assert last_good_checkpoint([saved(100), whole, small]).checkpoint == whole


def test_without_a_good_checkpoint_the_reason_is_named() -> None:
    assert last_good_checkpoint([]).text == "No good checkpoint is known."
    text = last_good_checkpoint([saved(3000)], None, [NAN_AT_2997]).text
    assert text == "No good checkpoint is known: ckpt_3000.pt holds NaN weights."


@pytest.mark.parametrize(
    ("by", "code"),
    [
        ("torch.save", 'checkpoint = torch.load("/a \\"b\\"/9", map_location="cpu")'),
        ("transformers.Trainer", 'trainer.train(resume_from_checkpoint="/a \\"b\\"/9")'),
        ("deepspeed", 'engine.load_checkpoint("/a \\"b\\"", tag="9")'),
        ("event", '/a "b"/9'),
    ],
)
def test_a_checkpoint_is_loaded_with_what_saved_it(by: str, code: str) -> None:
    assert saved(9, '/a "b"/9', by=by).resume_code == code


def test_a_path_that_is_not_complete_is_no_code() -> None:
    assert saved(9, "/a…/9", by="torch.save", cut=True).resume_code == "/a…/9"


def test_removed_replaced_and_renamed_files() -> None:
    """Only what still exists is left, under its newest name."""
    known = folded(
        (SAVED, 1, {"path": "/a.pt"}),
        (SAVED, 2, {"path": "/last.pt"}),
        (SAVED, 3, {"path": "/last.pt", "complete": False}),
        (SAVED, 3, {"path": "/last.pt", "complete": True}),
        (SAVED, 4, {"path": "/tmp.pt", "size": 4}),
        (MOVED, 4, {"from": "/tmp.pt", "path": "/b.pt", "size": 4}),
        (REMOVED, None, {"path": "/a.pt"}),
    )
    assert [(each.path, each.step, each.complete) for each in known] == [
        ("/last.pt", 3, True),
        ("/b.pt", 4, None),
    ]


def test_the_size_that_follows_keeps_the_time_of_the_save() -> None:
    known = after_event((), SAVED, 3, {"path": "/d", "complete": True}, most=MOST, time_ns=5)
    known = after_event(known, SAVED, 3, {"path": "/d", "complete": True, "size": 8}, most=MOST, time_ns=9)
    assert [(each.time_ns, each.size) for each in known] == [(5, 8)]


def test_a_hostile_path_is_bounded_and_one_line() -> None:
    """Of an older hook, or of ``run.event``: 4 kB with control characters."""
    (known,) = folded((SAVED, 1, {"path": "/" + "\x1b\n\u202e" * 1400}))
    assert len(known.path) <= LONGEST_PATH
    assert known.path.isprintable()
    assert problem_of(known, None) == "has no complete path"
    assert len(known.name) <= 80


ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
DATA = st.dictionaries(st.sampled_from(["path", "from", "size", "complete", "holds", "by", "cut"]), ODD)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.none() | st.integers(0, 9), DATA), max_size=9),
    st.none() | st.integers(0, 12),
)
def test_no_event_breaks_it(events: list[tuple[str, int | None, dict[str, Any]]], onset: int | None) -> None:
    """Whatever a script sends: bounded, one checkpoint for each path, and the good one has no problem."""
    known = folded(*events)
    assert len(known) <= MOST
    assert len({each.path for each in known}) == len(known)
    found = last_good_checkpoint(known, onset)
    assert not {unicodedata.category(each) for each in found.text} & {"Cc", "Zl", "Zp"}
    assert found.checkpoint is None or not problem_of(found.checkpoint, onset)
    assert [Checkpoint.from_plain(each.plain()) for each in known] == list(known)
