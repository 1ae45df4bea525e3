"""The Markdown of a postmortem, as an issue tracker shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.server.report.test_impact import ENDED, START_NS, run
from tocsin_server.core.checkpoints import Checkpoint, LastGood
from tocsin_server.core.incidents import Incident, IncidentState
from tocsin_server.core.models import Diagnosis, Evidence, Remedy
from tocsin_server.report.postmortem import Postmortem, markdown

HOSTILE = "1. <img src=x> https://evil.example www.evil.example ![p](http://q) #12 !5 GH-3 @all | `c` \\ &lt;"


def entry(kind: str, state: str = "", at_s: int = 0, **about: str) -> dict[str, Any]:
    blank = {"text": "", "by": "ada", "rule": "spike", "alert": "a1"}
    return {"kind": kind, "state": state, "at_ms": START_NS / 1e6 + at_s * 1e3} | blank | about


def written(text: str = "Loss is NaN", *, timeline: Any = (), remedies: Any = (), where: Any = None) -> str:
    """Return a postmortem in which every text of the run is ``text``."""
    diagnosis = Diagnosis(
        cause=text,
        evidence=(Evidence(text, text, "", 5),),
        remedies=remedies or (Remedy(text, text),),
        alternatives=(text, f"- {text}"),
        how_to_confirm=text,
    )
    lead = replace(ENDED, summary=text, diagnosis=diagnosis)
    stored: Any = SimpleNamespace(
        incident=Incident("r.f.1", (lead,)), state=IncidentState.ENDED, count=1, runs={"r": text}
    )
    resume = LastGood(where, text if where is None else f"{where.name} (step {where.step}).")
    return markdown(
        Postmortem(stored, [run(name=text, project=text)], timeline, resume, {}, "https://t/i", START_NS)
    )


def test_text_of_a_run_is_only_text() -> None:
    """Rendered as CommonMark with tables: no element but those of the postmortem itself."""
    html = MarkdownIt("commonmark").enable("table").render(written(HOSTILE))
    assert re.findall(r"<(?:a|img|ol|script)\b[^>]*>", html) == ['<a href="https://t/i">']
    assert html.count("<ul>") == 3  # impact, other explanations, actions
    code = html.partition("<pre>")[2].partition("</pre>")[0]
    assert not re.search(r"https?://evil|www\.evil|#12|!5|GH-3|@all", html.replace(code, ""))


def test_a_timeline_says_what_changed() -> None:
    """A firing alert that became more severe does not fire twice; a notification names its channel."""
    text = written(
        timeline=[
            entry("transition", "firing"),
            entry("transition", "firing", 1),
            entry("notification", "sent", 2, text="firing: slack", by=""),
        ]
    )
    assert re.findall(r"UTC \| (.+) \|", text.partition("## Timeline")[2]) == [
        "spike: firing",
        "spike: more severe",
        "Notification to slack, firing: sent",
    ]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [((), "no"), (("ack", "unack"), "no (withdrawn)"), (("ack",), "by ada, 2001-09-09 01:46:40 UTC")],
)
def test_an_acknowledgement_that_was_withdrawn_is_not_claimed(kinds: tuple[str, ...], expected: str) -> None:
    text = written(timeline=[entry(kind) for kind in kinds])
    assert f"| Acknowledged | {expected} |" in text


@pytest.mark.parametrize(
    ("remedy", "actions"), [("Resume from ckpt.pt (step 900).", 1), ("Clip the gradients.", 2)]
)
def test_the_checkpoint_is_one_action(remedy: str, actions: int) -> None:
    """Often the first remedy names it already."""
    text = written(remedies=(Remedy(remedy),), where=Checkpoint("/runs/ckpt.pt", 900))
    assert text.count("- [ ] ") == actions
    assert "| Last good checkpoint | ckpt.pt (step 900). |" in text
