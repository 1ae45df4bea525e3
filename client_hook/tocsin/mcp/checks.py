"""The tools ``diagnose_log`` and ``backtest_rule``: what rules say about a log, or would say about runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, field

from .api import Api
from .run_line import find_run
from .text import block, counted, listed, number, quoted
from .tool import Arguments, Tool

MOST_LOG_CHARACTERS = 500_000
"""The limit of ``POST /diagnose``."""
MOST_RUNS, MOST_FIRINGS = 20, 20


class DiagnoseLog(Arguments):
    """Find out what is wrong in a pasted training log of any known format (key=value lines, JSON Lines, CSV,
    Hugging Face, Lightning, Keras, timm, nanoGPT and others): since which step, the likely cause and the
    first action. Nothing is stored. At most 500,000 characters: paste the part around the problem and a few
    hundred healthy lines before it, with the header of a CSV file.
    """

    text: Annotated[str, Meta(min_length=1, description="The log.")]
    file_name: Annotated[str, Meta(description="Its file name, by which some formats are recognized.")] = (
        "pasted.log"
    )


class BacktestRule(Arguments):
    """Find out where a rule would have fired in stored runs, with its defaults or with other settings, or
    where a draft of a custom rule would have fired. Nothing is stored or sent. Pass either rule or draft,
    and either runs or project.
    """

    rule: Annotated[str | None, Meta(description="Id of a built-in rule, such as loss-spike.")] = None
    settings: Annotated[
        dict[str, float | int | str], Meta(description="Settings of the rule that replace its defaults.")
    ] = field(default_factory=dict)
    draft: Annotated[
        dict[str, Any] | None,
        Meta(description='A custom rule: {"series": "loss", "comparison": ">", "limit": 10}.'),
    ] = None
    runs: Annotated[list[str], Meta(max_length=MOST_RUNS, description="Ids or names of runs.")] = field(
        default_factory=list
    )
    project: Annotated[str | None, Meta(description="The newest runs of this project.")] = None
    newest: Annotated[int, Meta(ge=1, le=MOST_RUNS, description="How many runs of the project.")] = 10


async def diagnose_log(api: Api, wanted: DiagnoseLog) -> list[str]:
    """Return the report about a log."""
    if len(wanted.text) > MOST_LOG_CHARACTERS:
        return [
            f"The log has {len(wanted.text):,} characters. At most {MOST_LOG_CHARACTERS:,} are accepted: "
            "paste the part around the problem, or run `tocsin diagnose FILE` on its machine."
        ]
    body = {"text": wanted.text, "name": wanted.file_name[:200]}
    found = await api.post("/diagnose", body)
    lines = [
        f"{counted(len(found['alerts']), 'alert')} in {counted(found['records'], 'record')}. The report:"
    ]
    return lines + block(found["text"])


async def backtest_rule(api: Api, wanted: BacktestRule) -> list[str]:
    """Return the alerts that a rule would have fired."""
    body: dict[str, Any] = {"settings": wanted.settings, "most": wanted.newest}
    body |= {"rule": wanted.rule} if wanted.draft is None else {"draft": wanted.draft}
    if wanted.runs:
        body["runs"] = [(await find_run(api, each))["id"] for each in wanted.runs]
    if wanted.project is not None:
        body["project"] = wanted.project
    found = await api.post("/backtest", body)
    lines = [
        f"Rule {quoted(found['rule'])}: {counted(found['firings'], 'alert')} in "
        f"{counted(len(found['runs']), 'run')}, {found['steps']} steps, {found['healthy_steps']} of them "
        "healthy."
    ]
    false = [
        f"{severity} {number(rate)}"
        for severity, rate in found["alerts_per_1000_healthy_steps"].items()
        if rate is not None
    ]
    lines.append(f"Alerts per 1000 healthy steps: {', '.join(false) or 'no healthy steps'}.")
    firings = [_firing(run, each) for run in found["runs"] for each in run["firings"]]
    lines += listed(firings, MOST_FIRINGS, "alerts")
    lines += [
        f"run {quoted(run['run'])} was evaluated in part: {quoted(run['cut'])}"
        for run in found["runs"]
        if run["cut"]
    ]
    return lines


def _firing(run: Mapping[str, Any], each: Mapping[str, Any]) -> str:
    over = "" if each["resolved_step"] is None else f", resolved at step {each['resolved_step']}"
    healthy = ", in a healthy part" if each["healthy"] else ""
    return (
        f"run {quoted(run['run'])}: {each['severity']} since step {each['onset_step']}, fired at step "
        f"{each['step']}{over}{healthy}: {quoted(each['summary'])}; likely cause {quoted(each['cause'])}"
    )


DIAGNOSE = Tool("diagnose_log", DiagnoseLog, diagnose_log)
BACKTEST = Tool("backtest_rule", BacktestRule, backtest_rule)
