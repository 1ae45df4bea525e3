"""Render everything besides charts and alerts: environment, notes, settings, attempts, events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from tocsin_server.core.models import RunState
from tocsin_server.report.diagnoses import code_block, step_link
from tocsin_server.report.material import Material
from tocsin_server.report.prose import prose
from tocsin_server.report.words import (
    MOST_SETTINGS,
    NONE,
    counted,
    esc,
    flat,
    foreign,
    moment,
    num,
    span,
    whole,
)
from tocsin_server.store.results import StoredRun


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table. Cells are HTML already; the columns in ``numbers`` are right-aligned."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at in numbers else ''}>{cell}</{tag}>" for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>{body}</tbody></table></div>'


def pairs(value: Any, empty: str) -> str:
    """Return nested settings, one per line."""
    found = list(islice(flat(value), MOST_SETTINGS + 1))
    if not found:
        return f'<p class="soft">{empty}</p>'
    lines = "".join(
        f"<div><dt>{foreign(key)}</dt><dd>{foreign(text)}</dd></div>" for key, text in found[:MOST_SETTINGS]
    )
    more = f'<p class="soft">Only the first {whole(MOST_SETTINGS)} settings are shown.</p>'
    return f"<dl>{lines}</dl>{more if len(found) > MOST_SETTINGS else ''}"


def outcome(run: StoredRun) -> str:
    """Return the state of a run, and whether an alert of at least a warning was firing when it finished."""
    left = (run.summary or {}).get("left") or {}
    problems = run.state is RunState.FINISHED and left.get("severity") in ("warning", "critical")
    return f"{run.state.value} with problems" if problems else run.state.value


def environment_line(run: StoredRun) -> str:
    """Return state, steps, attempts and times: one line below the title."""
    planned = f" of {whole(run.planned_steps)}" if run.planned_steps else ""
    lasted = span(((run.ended_ns or run.last_seen_ns) - run.created_ns) / 1e9)
    parts = [
        f"<b>{esc(outcome(run))}</b>",
        f"step {whole(run.last_step)}{planned}",
        counted(run.attempts, "attempt"),
        counted(run.world_size, "process", "processes"),
        f"started {moment(run.created_ns)}",
        f"last message {moment(run.last_seen_ns)}, after {lasted}",
        f"on {foreign(run.host)}" if run.host else "",
    ]
    return " · ".join(part for part in parts if part)


def ending(run: StoredRun) -> str:
    """Return why a failed run failed, as reported by its training process."""
    error = run.error if isinstance(run.error, dict) else {}
    head = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    lines = error.get("lines")
    trace = "\n".join(map(str, lines[-60:])) if isinstance(lines, list) else ""
    if not head and not trace:
        return ""
    return f'<section class="ending"><h2>Error</h2><p>{foreign(head)}</p>{code_block(trace)}</section>'


def notes(run: StoredRun) -> str:
    """Return notes and tags."""
    tags = "".join(f'<span class="tag">{foreign(tag)}</span>' for tag in run.tags)
    text = f'<div class="notes">{prose(run.notes)}</div>' if run.notes else '<p class="soft">No notes.</p>'
    return f"<section><h2>Notes</h2>{f'<p>{tags}</p>' if tags else ''}{text}</section>"


def details(material: Material) -> str:
    """Return settings, environment, attempts, processes, series and events: collapsed, but always printed."""
    run = material.run
    parts = (
        ("Configuration", pairs(run.config, "No configuration was reported."), True),
        (
            "Environment",
            pairs(run.environment, "The training process reported no environment."),
            False,
        ),
        ("Attempts and processes", _attempts(run) + _writers(run), False),
        ("Series", _series(run), False),
        ("Events", _events(material), False),
    )
    return "".join(
        f"<section><details{' open' if opened else ''}><summary><h2>{title}</h2></summary>{body}</details>"
        "</section>"
        for title, body, opened in parts
    )


def _attempts(run: StoredRun) -> str:
    rows = [
        (whole(one.attempt), moment(one.started_ns), step_link(one.first_step), step_link(one.last_step))
        for one in run.attempts_list[-500:]
    ]
    return table(("Attempt", "Started", "First step", "Last step"), rows, (0, 2, 3))


def _writers(run: StoredRun) -> str:
    rows = [
        (
            whole(one.writer.attempt_no),
            whole(one.writer.rank),
            foreign(one.host),
            whole(one.records),
            whole(one.events),
        )
        for one in run.writers[-500:]
    ]
    return table(("Attempt", "Rank", "Host", "Records", "Events"), rows, (0, 1, 3, 4))


def _series(run: StoredRun) -> str:
    rows = [
        (
            f"<code>{foreign(one.name)}</code>",
            whole(one.n),
            whole(one.first_step),
            whole(one.last_step),
            num(one.last),
        )
        for one in run.series[:2000]
    ]
    return table(("Series", "Records", "First step", "Last step", "Last value"), rows, (1, 2, 3, 4))


def _events(material: Material) -> str:
    rows = [
        (step_link(event.step), moment(event.time_ns), esc(event.kind), _event_text(event.data))
        for event in reversed(material.events)
    ]
    more = f'<p class="soft">{counted(material.events_left, "older event")} not shown.</p>'
    return table(("Step", "Time", "Event", "Details"), rows, (0,)) + (more if material.events_left else "")


def _event_text(data: Any) -> str:
    return " · ".join(f"{foreign(key)} {foreign(text)}" for key, text in islice(flat(data), 20)) or NONE


def differing(runs: Sequence[StoredRun]) -> str:
    """Return the settings in which runs differ, one column per run; equal ones are counted."""
    known = [dict(islice(flat(run.config), MOST_SETTINGS)) for run in runs]
    keys = sorted({key for each in known for key in each})
    rows = [(key, [each.get(key) for each in known]) for key in keys]
    found = [(key, values) for key, values in rows if len(set(values)) > 1]
    equal = counted(len(rows) - len(found), "setting is", "settings are")
    same = f'<p class="soft">{equal} the same in all runs.</p>'
    if not found:
        return f"<section><h2>Settings</h2>{same}</section>"
    cells = [
        (
            f"<code>{foreign(key)}</code>",
            *("not set" if value is None else foreign(value) for value in values),
        )
        for key, values in found
    ]
    heads = ("Setting", *(foreign(run.name) for run in runs))
    return f"<section><h2>Settings that differ</h2>{table(heads, cells)}{same}</section>"
