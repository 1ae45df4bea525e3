"""Render the alerts of a report: likely cause, timeline, evidence, remedies, how to confirm. Pure."""

from __future__ import annotations

import math

from tocsin_server.core.models import Alert, Evidence, Remedy
from tocsin_server.report.material import ReportedAlert
from tocsin_server.report.words import counted, esc, foreign, moment, num, powers, span, title_of, whole
from tocsin_server.store.results import AlertStep

SHAPES = {"critical": "⯃", "warning": "▲", "info": "◯"}
"""Shapes distinguish the severities in black and white too."""


def alerts_section(reported: tuple[ReportedAlert, ...], left: int) -> str:
    """Return all alerts in full, open and severe ones first."""
    if not reported:
        return '<section><h2>Alerts</h2><p class="soft">No alerts.</p></section>'
    more = f'<p class="soft">{counted(left, "older alert")} left out.</p>' if left else ""
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
        f'<code>{esc(alert.subject)}</code> <span class="soft">{esc(alert.state.value)}</span></header>'
    )
    parts = (
        _moments(alert),
        _timeline(alert),
        _evidence(why.evidence),
        _remedies(why.remedies),
        _how_to_confirm(alert),
    )
    body = f'<p class="likely-cause">{esc(outcome)}</p>{summary}{"".join(parts)}{_life(reported.life)}'
    kinds = f"alert {severity}{'' if alert.is_open else ' past'}"
    return f'<article class="{kinds}" data-alert="{esc(alert.id)}">{head}{body}</article>'


def step_link(step: int | None) -> str:
    """Return a step as a button that moves the charts' cursor there."""
    return "–" if step is None else f'<button type="button" data-step="{step}">{whole(step)}</button>'


def _moments(alert: Alert) -> str:
    fired = f", fired {step_link(alert.fired_step)} ({moment(alert.fired_ns)})" if alert.fired_ns else ""
    over = (
        f", resolved {step_link(alert.resolved_step)} ({moment(alert.resolved_ns)})"
        if alert.resolved_ns
        else ""
    )
    took = span((alert.fired_ns - alert.onset_ns) / 1e9) if alert.fired_ns and alert.onset_ns else ""
    soft = f' <span class="soft">fired {took} after onset</span>' if took else ""
    return f"<p>Onset {step_link(alert.onset_step)} ({moment(alert.onset_ns)}){fired}{over}.{soft}</p>"


def _timeline(alert: Alert) -> str:
    lines = [
        f"<li>{step_link(step)} <span>{esc(powers(text))} <code>{esc(rule)}</code></span></li>"
        for step, text, rule in alert.diagnosis.timeline
    ]
    return f'<h4>What happened, in order</h4><ol class="timeline">{"".join(lines)}</ol>' if lines else ""


def _evidence(items: tuple[Evidence, ...]) -> str:
    rows = [
        f'<tr><th scope="row">{esc(powers(item.name))}</th><td class="n">{esc(evidence_text(item))}</td>'
        f'<td class="n">{"" if item.step is None else step_link(item.step)}</td></tr>'
        for item in items
    ]
    return f"<h4>Evidence</h4><table>{''.join(rows)}</table>" if rows else ""


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
        text = f"{powers(f'2^{int(math.log2(value))}')} {text}"
    return f"{text} {item.unit}".strip()


def _remedies(remedies: tuple[Remedy, ...]) -> str:
    lines = [f"<li>{esc(powers(each.text))}{code_block(each.code)}</li>" for each in remedies]
    return f"<h4>What to do</h4><ol>{''.join(lines)}</ol>" if lines else ""


def code_block(code: str) -> str:
    """Return code verbatim, or "" if there is none."""
    return f"<pre tabindex=0><code>{esc(code)}</code></pre>" if code else ""


def _how_to_confirm(alert: Alert) -> str:
    why = alert.diagnosis
    head = "<h4>What would disprove this</h4>"
    text = f"{head}<p>{esc(powers(why.how_to_confirm))}</p>" if why.how_to_confirm else ""
    others = "".join(f"<li>{esc(powers(each))}</li>" for each in why.alternatives)
    return text + (f"<h4>Also possible, less likely</h4><ul>{others}</ul>" if others else "")


def _life(life: tuple[AlertStep, ...]) -> str:
    rows = "".join(
        f"<tr><td>{moment(each.at_ns)}</td><td>{esc(each.state)}</td><td>{foreign(powers(each.summary))}</td></tr>"
        for each in life
    )
    if not life:
        return ""
    return (
        f"<details><summary>Its life, {counted(len(life), 'line')}</summary><table>{rows}</table></details>"
    )
