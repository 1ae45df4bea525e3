"""Sort runs and incidents by urgency, and write rows about them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.severity import level_of
from ..read.answers import Incident, Run
from ..read.text import ago, likely, number, shown

COLORS = {
    "critical": "bold red", "warning": "yellow", "ok": "green", "ended": "dim",
    "failed": "red", "lost": "red", "stalled": "yellow",
}  # fmt: skip
"""Color of a severity, a health or a state. Each is also a word."""
_HEALTH = ("critical", "warning", "ok", "ended")
_BAD_ENDS = ("crashed", "lost")


def by_trouble(runs: Iterable[Run]) -> list[Run]:
    """Return runs with the most severe ones first, then running ones, then the newest."""
    return sorted(runs, key=_order)


def _order(run: Run) -> tuple[int, bool, bool, float]:
    place = _HEALTH.index(run.health) if run.health in _HEALTH else len(_HEALTH)
    is_bad_end = run.outcome is not None and run.outcome.kind in _BAD_ENDS and not run.outcome.acknowledged
    return place, not is_bad_end, run.state != "running", -run.created_ms


def condition(run: Run) -> str:
    """Return health and state in one or two words; "running" goes without saying."""
    if run.health == "ended":
        return run.state
    return run.health if run.state == "running" else f"{run.health}, {run.state}"


def step_of(run: Run) -> str:
    """Return the newest step, and the planned number of steps if it is known."""
    last = "" if run.last_step is None else str(run.last_step)
    return last if run.planned_steps is None else f"{last}/{run.planned_steps}"


def problem_of(run: Run) -> str:
    """Return the most severe alert, or how a run ended if it did not finish."""
    if run.reason is not None:
        since = "" if run.reason.onset_step is None else f", step {run.reason.onset_step}"
        return f"{run.reason.rule}{since}"
    return "" if run.outcome is None or run.outcome.kind == "finished" else run.outcome.text


def cells_of(run: Run) -> list[tuple[str, str]]:
    """Return text and color of each cell: health, name, step, loss, steps per second, seen, problem."""
    word = run.health if run.health != "ended" else run.state
    return [
        (word, COLORS.get(word, "")),
        (shown(run.name), ""),
        (step_of(run), ""),
        (number(run.last.get("loss")), "bold red" if _is_nonfinite(run.last.get("loss")) else ""),
        (number(run.steps_per_s), "dim"),
        (ago(run.last_seen_ms), "dim"),
        (shown(problem_of(run)), COLORS.get(run.health, "")),
    ]


def _is_nonfinite(value: float | None) -> bool:
    return value is not None and value - value != 0


def counts(runs: Sequence[Run]) -> str:
    """Return how many runs there are, and how many of each health that matters."""
    parts = [f"{len(runs)} run{'' if len(runs) == 1 else 's'}"]
    parts += [f"{n} {health}" for health in _HEALTH[:2] if (n := sum(run.health == health for run in runs))]
    parts += [f"{n} running"] if (n := sum(run.state == "running" for run in runs)) else []
    return ", ".join(parts)


def by_urgency(incidents: Iterable[Incident]) -> list[Incident]:
    """Return open incidents first, then unacknowledged, more severe and newer ones."""

    def order(one: Incident) -> tuple[bool, bool, int, float]:
        return one.state != "open", one.ack is not None, level_of(one.severity), -one.updated_ms

    return sorted(incidents, key=order)


def incident_cells(incident: Incident) -> list[tuple[str, str]]:
    """Return text and color of each cell: severity, state, run, since, acknowledged, summary."""
    since = "" if incident.onset_step is None else str(incident.onset_step)
    return [
        (incident.severity, COLORS.get(incident.severity, "")),
        (incident.state, "bold" if incident.state == "open" else "dim"),
        (shown(incident.run_name), ""),
        (since, ""),
        ("yes" if incident.ack else "no", "dim" if incident.ack else "bold"),
        (shown(incident.summary), ""),
    ]


def incident_lines(incident: Incident) -> list[tuple[str, str]]:
    """Return what is known about an incident, each line with its color."""
    since = "" if incident.onset_step is None else f" since step {incident.onset_step}"
    ack = incident.ack
    by = "Not acknowledged" if ack is None else f"Acknowledged by {shown(ack.by)} {ago(ack.at_ms)} ago"
    note = f": {shown(ack.note)}" if ack is not None and ack.note else ""
    lines = [
        (f"{incident.severity}, {incident.state}{since}", COLORS.get(incident.severity, "")),
        (shown(incident.summary), "bold"),
        (f"{by}{note}.", ""),
    ]
    diagnosis = incident.diagnosis
    if diagnosis is None:
        return lines
    lines.append((f"Likely cause: {shown(likely(diagnosis.cause))}", ""))
    lines += [(f"First action: {shown(remedy.text)}", "green") for remedy in diagnosis.remedies[:1]]
    for evidence in diagnosis.evidence[:8]:
        value = evidence.value if isinstance(evidence.value, str) else number(evidence.value)
        unit = f" {evidence.unit}" if evidence.unit else ""
        at = "" if evidence.step is None else f" at step {evidence.step}"
        first, *more = f"{evidence.name} {value}{unit}{at}".splitlines()
        lines += [(f"  {shown(line)}", "dim") for line in (first, *(f"  {line}" for line in more))]
    if diagnosis.how_to_confirm:
        lines.append((f"How to confirm: {shown(diagnosis.how_to_confirm)}", ""))
    return lines
