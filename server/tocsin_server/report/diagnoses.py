"""Render the alerts of a report: likely cause, first action, evidence, timeline, how to confirm. Pure."""

from __future__ import annotations

import math

from tocsin_server.core.models import RULE_CHANGED, Alert, AlertState, Evidence, Remedy
from tocsin_server.report.material import ReportedAlert
from tocsin_server.report.words import counted, esc, foreign, moment, num, powers, span, title_of, whole
from tocsin_server.store.results import AlertStep

SHAPES = {"critical": "■", "warning": "▲", "info": "◯"}
"""Shapes distinguish the severities in black and white too."""
LONG = 10
"""Entries of a timeline that are shown unfolded."""


def alerts_section(reported: tuple[ReportedAlert, ...], left: int) -> str:
    """Return all alerts in full: open ones first, then by severity."""
    if not reported:
        return '<section><h2>Alerts</h2><p class="soft">No alerts.</p></section>'
    more = f'<p class="soft">{counted(left, "more alert")} not shown.</p>' if left else ""
    head = f"<h2>Alerts <small>{whole(len(reported) + left)}</small></h2>"
    return f"<section>{head}{''.join(map(_alert, reported))}{more}</section>"


def _alert(reported: ReportedAlert) -> str:
    alert, why = reported.stored.alert, reported.stored.alert.diagnosis
    severity = alert.severity.value
    outcome = powers(why.cause or alert.summary)
    summary = f'<p class="soft">{esc(powers(alert.summary))}</p>' if why.cause else ""
    head = (
        f'<header><span class="{severity}">{SHAPES[severity]} {severity}</span> '
        f"<b>{esc(title_of(alert.rule))}</b> "
        f'<code>{esc(alert.subject)}</code> <span class="soft">{esc(standing(alert))}</span></header>'
    )
    parts = (
        _first_action(why.remedies),
        _moments(alert),
        _evidence(why.evidence),
        _timeline(alert),
        _alternatives(why.alternatives),
        _how_to_confirm(why.how_to_confirm),
        _further(why.remedies),
    )
    body = f'{summary}<p class="likely-cause">{esc(outcome)}</p>{"".join(parts)}{_history(reported.history)}'
    kinds = f"alert {severity}{' past' if alert.state is AlertState.RESOLVED else ''}"
    return f'<article class="{kinds}" data-alert="{esc(alert.id)}">{head}{body}</article>'


def standing(alert: Alert) -> str:
    """Return the state of an alert. One that was firing when its run ended never looks resolved."""
    if alert.is_withdrawn:
        return "withdrawn"
    if alert.state is AlertState.RESOLVED and alert.summary.startswith(RULE_CHANGED):
        return "closed"
    return "firing when the run ended" if alert.state is AlertState.ENDED else alert.state.value


def step_link(step: int | None) -> str:
    """Return a step as a button that moves the charts' cursor there."""
    return "–" if step is None else f'<button type="button" data-step="{step}">{whole(step)}</button>'


def _moments(alert: Alert) -> str:
    parts = [_moment("Onset", alert.onset_step, alert.onset_ns)]
    if alert.fired_ns:
        parts.append(_moment("fired", alert.fired_step, alert.fired_ns))
    if alert.resolved_ns:
        closed = "run ended" if alert.state is AlertState.ENDED else standing(alert)
        parts.append(_moment(closed, alert.resolved_step, alert.resolved_ns))
    took = span((alert.fired_ns - alert.onset_ns) / 1e9) if alert.fired_ns and alert.onset_ns else ""
    soft = f' <span class="soft">Fired {took} after onset.</span>' if took else ""
    return f"<p>{', '.join(parts)}.{soft}</p>"


def _moment(name: str, step: int | None, time_ns: int | None) -> str:
    at = "" if step is None else f" at step {step_link(step)}"
    return f"{name}{at} ({moment(time_ns)})"


def _timeline(alert: Alert) -> str:
    lines = [
        f"<li>{step_link(step)} <span>{esc(powers(text))} <code>{esc(rule)}</code></span></li>"
        for step, text, rule in alert.diagnosis.timeline
    ]
    if not lines:
        return ""
    shown = f'<h4>Timeline</h4><ol class="timeline">{"".join(lines[:LONG])}</ol>'
    if len(lines) <= LONG:
        return shown
    more = f"And {len(lines) - LONG} more since step {whole(alert.diagnosis.timeline[LONG][0])}"
    rest = f'<ol class="timeline">{"".join(lines[LONG:])}</ol>'
    return f"{shown}<details><summary>{more}</summary>{rest}</details>"


def _evidence(items: tuple[Evidence, ...]) -> str:
    rows = [
        f'<tr><th scope="row">{esc(powers(item.name))}</th><td class="n">{esc(evidence_text(item))}</td>'
        f'<td class="n">{"" if item.step is None else step_link(item.step)}</td></tr>'
        for item in items
    ]
    return (
        f'<h4>Evidence</h4><div class="scroll" tabindex="0"><table>{"".join(rows)}</table></div>'
        if rows
        else ""
    )


def evidence_text(item: Evidence) -> str:
    """Return a number of evidence as text: powers of two for scales, units after a space."""
    if isinstance(item.value, str):
        return powers(item.value)
    value = float(item.value)
    if item.unit == "step":
        return f"step {whole(value)}" if math.isfinite(value) else num(value)
    if item.unit == "s" and math.isfinite(value):
        return span(value)
    text = whole(value) if value.is_integer() and abs(value) < 1e9 else num(value)
    if "scale" in item.name and value > 0 and value.is_integer() and math.log2(value).is_integer():
        text = f"{text} ({powers(f'2^{int(math.log2(value))}')})"
    return f"{text} {item.unit}".strip()


def _first_action(remedies: tuple[Remedy, ...]) -> str:
    return f"<h4>First action</h4><ul>{_listed(remedies[:1])}</ul>" if remedies else ""


def _further(remedies: tuple[Remedy, ...]) -> str:
    return f"<h4>If it persists</h4><ul>{_listed(remedies[1:])}</ul>" if remedies[1:] else ""


def _listed(remedies: tuple[Remedy, ...]) -> str:
    return "".join(f"<li>{esc(powers(each.text))}{code_block(each.code)}</li>" for each in remedies)


def code_block(code: str) -> str:
    """Return code verbatim, or "" if there is none."""
    return f"<pre tabindex=0><code>{esc(code)}</code></pre>" if code else ""


def _alternatives(alternatives: tuple[str, ...]) -> str:
    lines = "".join(f"<li>{esc(powers(each))}</li>" for each in alternatives)
    return f"<h4>Other explanations</h4><ul>{lines}</ul>" if lines else ""


def _how_to_confirm(text: str) -> str:
    return f"<h4>How to confirm</h4><p>{esc(powers(text))}</p>" if text else ""


def _history(history: tuple[AlertStep, ...]) -> str:
    """Return the state changes of an alert, collapsed."""
    if not history:
        return ""
    rows = "".join(
        f"<tr><td>{moment(each.at_ns)}</td><td>{esc(each.state)}</td><td>{foreign(powers(each.summary))}</td></tr>"
        for each in history
    )
    return (
        f"<details><summary>History, {counted(len(history), 'entry', 'entries')}</summary>"
        f"<table>{rows}</table></details>"
    )
