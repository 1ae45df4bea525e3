"""Evaluate detection on labeled logs: detections and false alerts of all rules, compared with published
rules.

``LOGS=folder python benchmarks/bench_detection.py``. Each subfolder has a log in any supported format and
``label.json``. If ``label`` starts with UNSTABLE, the run is unstable, else healthy; the first number in
``onset`` is the step, unless it says "between". An unstable run is detected by an alarm at or after its
onset. Alarms of a published rule that are less than 50 records apart count as one, like an alert that keeps
firing.

The lead is the number of steps from the first alarm at or after the onset to the failure: the first loss that
is not finite or above three times the best median of ten before. Each log is evaluated again with every tenth
and every hundredth training record: the result stays, or the log is too short.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.published import PUBLISHED
from tocsin.importers import Item, LogRecord, open_log
from tocsin_server.core.models import AlertState, Finding, Severity
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.offline.replay import FULL_RECORDS, Evaluator, Replay

APART = 50
"""Records without an alarm that end one alarm of a published rule."""
BESIDES = ("label.json", "PROVENANCE.txt", "normalized.jsonl")
LOUD = (Severity.WARNING, Severity.CRITICAL)
SERIES = ("loss", "grad_norm", "scale")
THINNED = (10, 100)
DIVERGED = 3.0
"""Times the lowest median of ``SMOOTH`` losses."""
SMOOTH = 10
ALL = "**tocsin, all rules**"


@dataclass(frozen=True)
class Alarm:
    """Position of an alarm, counted in training records from 0."""

    rule: str
    at: int
    severity: Severity


@dataclass
class LabelledLog:
    """A labeled log: training records, onset (in records; None without a number), alarms of every rule."""

    name: str
    unstable: bool
    onset: int | None = None
    steps: list[int] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    evaluated: set[str] = field(default_factory=set)
    """Published rules whose series the log has."""
    ruin: int | None = None
    """Step at which the loss diverged or stopped being finite, if it did."""


def log_of(folder: Path) -> Path:
    """Return the original log, or its normalized copy if that is the only one."""
    logs = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in BESIDES]
    return logs[0] if logs else folder / "normalized.jsonl"


def read(folder: Path) -> LabelledLog:
    """Return the log of ``folder`` with the alarms of our rules and the published ones."""
    label = json.loads((folder / "label.json").read_text("utf-8"))
    case = LabelledLog(folder.name, str(label["label"]).startswith("UNSTABLE"))
    log = open_log(log_of(folder))
    return evaluated(case, label, list(log.items()), log.planned_steps)


def is_training(item: Item) -> bool:
    """Return whether an item is a training record, not one of an evaluation."""
    return isinstance(item, LogRecord) and bool(item.values.keys() & {"loss", "grad_norm"})


def thinned(items: Iterable[Item], every: int) -> list[Item]:
    """Return every ``every``-th training record, and all evaluations and other items."""
    kept, seen = [], 0
    for item in items:
        seen += is_training(item)
        if not is_training(item) or seen % every == 1:
            kept.append(item)
    return kept


def evaluated(
    case: LabelledLog, label: dict[str, Any], items: list[Item], planned: int | None
) -> LabelledLog:
    """Return ``case`` with the alarms of every rule over ``items``."""
    records = [item for item in items if isinstance(item, LogRecord) and is_training(item)]
    case.steps = [record.step for record in records]
    case.ruin = ruin_of(
        [(record.step, record.values["loss"]) for record in records if "loss" in record.values]
    )
    if case.unstable:
        case.onset = onset_of(case.steps, str(label.get("onset", "")))
    case.alarms = [*ours(case, items, planned), *theirs(case, records)]
    return case


def ruin_of(losses: Sequence[tuple[int, float]]) -> int | None:
    """Return the step of the first loss that is not finite, or above ``DIVERGED`` times the best level above
    0."""
    last: deque[float] = deque(maxlen=SMOOTH)
    best = math.inf
    for step, loss in losses:
        if not math.isfinite(loss) or (0 < best < math.inf and loss > DIVERGED * best):
            return step
        last.append(loss)
        if len(last) == SMOOTH:
            best = min(best, median(last))
    return None


def lead_of(case: LabelledLog, rules: set[str], severities: tuple[Severity, ...]) -> int | None:
    """Return the steps from the first alarm at or after the onset to the failure; negative if it came
    later."""
    delay = delay_of(case, rules, severities)
    if delay is None or case.ruin is None:
        return None
    return case.ruin - case.steps[(case.onset or 0) + delay]


def outcome_of(case: LabelledLog) -> str:
    """Return tocsin's result for a log: unstable, nothing at warning or above, or too few records."""
    own = {alarm.rule for alarm in case.alarms} - {rule.name for rule in PUBLISHED}
    onset = case.onset or 0
    loud = [alarm for alarm in picked(case, own, LOUD) if alarm.at >= onset or not case.unstable]
    if loud:
        return "unstable"
    return "too few records" if len(case.steps) < FULL_RECORDS else "nothing"


def onset_of(steps: Sequence[int], reported: str) -> int | None:
    """Return the first record at or after the first number in ``reported``; None without one, or for a
    range."""
    number = re.search(r"\d+", reported)
    if number is None or reported.startswith("between"):
        return None
    return next((at for at, step in enumerate(steps) if step >= int(number.group())), None)


def place(steps: Sequence[int], step: int) -> int:
    """Return the first record of ``step``, or the last before it (an evaluation between two records)."""
    exact = [at for at, each in enumerate(steps) if each == step]
    before = [at for at, each in enumerate(steps) if each < step]
    return exact[0] if exact else max(before, default=0)


def ours(case: LabelledLog, items: Iterable[Item], planned: int | None) -> list[Alarm]:
    """Return the first finding of each alert at warning, and at critical."""
    evaluator = Evaluator(RunContext(run_id=case.name, planned_steps=planned))
    firsts: dict[tuple[str, str, int | None, Severity], Alarm] = {}
    found: list[Finding] = []
    for received in Replay(case.name).take(items):
        found += evaluator.take(received)
    found += evaluator.finish()
    for one in found:
        if one.state is AlertState.FIRING and one.severity is not Severity.INFO:
            key = (one.rule, one.subject, one.onset_step, one.severity)
            firsts.setdefault(key, Alarm(one.rule, place(case.steps, one.step or 0), one.severity))
    return list(firsts.values())


def theirs(case: LabelledLog, records: Sequence[LogRecord]) -> list[Alarm]:
    """Return the alarms of the published rules, all as warnings. A rule is skipped if the log lacks its
    series."""
    found = []
    for rule in PUBLISHED:
        rows = [at for at, record in enumerate(records) if rule.series in record.values]
        if not rows:
            continue
        case.evaluated.add(rule.name)
        values = [records[at].values[rule.series] for at in rows]
        found += [
            Alarm(rule.name, rows[at], Severity.WARNING) for at in apart(rule.alarms(values), case, rows)
        ]
    return found


def apart(alarms: Sequence[int], case: LabelledLog, rows: Sequence[int]) -> list[int]:
    """Return the first alarm of each episode. The onset starts one, so that earlier alarms hide nothing."""
    onset = case.onset if case.onset is not None else -1
    first: list[int] = []
    for index, at in enumerate(alarms):
        before = alarms[index - 1] if index else -math.inf
        if at - before >= APART or (index and rows[alarms[index - 1]] < onset <= rows[at]):
            first.append(at)
    return first


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    caught: str
    delay: str
    lead: str
    critical: str
    warning: str
    rate: str

    def __str__(self) -> str:
        cells = (self.name, self.caught, self.delay, self.lead, self.critical, self.warning, self.rate)
        return f"| {' | '.join(cells)} |"


def row(name: str, cases: Sequence[LabelledLog], rules: set[str], severities: tuple[Severity, ...]) -> Row:
    """Return the results of ``rules`` at ``severities``; several alerts in one run each count in the rate."""
    unstable = [case for case in cases if case.unstable]
    healthy = [case for case in cases if not case.unstable]
    caught = [case for case in unstable if delay_of(case, rules, severities) is not None]
    delays = [delay_of(case, rules, severities) or 0 for case in caught if case.onset is not None]
    loud = {level: [case for case in healthy if picked(case, rules, (level,))] for level in Severity}
    count = sum(len(picked(case, rules, severities)) for case in healthy)
    records = sum(len(case.steps) for case in healthy)
    return Row(
        name,
        f"{len(caught)}/{len(unstable)}",
        spread(delays),
        spread([lead for case in caught if (lead := lead_of(case, rules, severities)) is not None]),
        f"{len(loud[Severity.CRITICAL])}/{len(healthy)}",
        f"{len(loud[Severity.WARNING])}/{len(healthy)}",
        f"{1000 * count / records:.2f}" if records else "-",
    )


def spread(values: Sequence[int]) -> str:
    """Return median, minimum and maximum."""
    return f"{median(values):g} ({min(values)} to {max(values)})" if values else "-"


def picked(case: LabelledLog, rules: set[str], severities: tuple[Severity, ...]) -> list[Alarm]:
    """Return the alarms of ``case`` by ``rules`` at ``severities``."""
    return [alarm for alarm in case.alarms if alarm.rule in rules and alarm.severity in severities]


def delay_of(case: LabelledLog, rules: set[str], severities: tuple[Severity, ...]) -> int | None:
    """Return the records from the onset to the first alarm at or after it; None if there is none."""
    onset = case.onset or 0
    after = [alarm.at - onset for alarm in picked(case, rules, severities) if alarm.at >= onset]
    return min(after, default=None)


def table(cases: Sequence[LabelledLog]) -> list[Row]:
    """Return the rows: all rules together, each rule that alarmed, then the published ones."""
    loud, known = LOUD, {rule.name for rule in PUBLISHED}
    own = {alarm.rule for case in cases for alarm in case.alarms} - known
    rows = [row(ALL, cases, own, loud), row(f"{ALL}, critical only", cases, own, (Severity.CRITICAL,))]
    rows += [row(name, cases, {name}, loud) for name in sorted(own)]
    for rule in PUBLISHED:
        having = [case for case in cases if rule.name in case.evaluated]
        rows.append(row(f"*{rule.name}*", having, {rule.name}, loud))
    return rows


def main() -> None:
    """Print the table, then each unstable run that was missed and each healthy run with an alarm."""
    folder = os.environ.get("LOGS")
    if not folder:
        print("detection: set LOGS to a folder of labeled logs; nothing was evaluated")
        return
    cases = [read(path.parent) for path in sorted(Path(folder).glob("*/label.json"))]
    healthy = [case for case in cases if not case.unstable]
    print(f"{len(cases)} logs, {len(healthy)} healthy with {sum(len(c.steps) for c in healthy)} records\n")
    print(
        "| rule | caught | delay in records | lead in steps | critical on healthy | warning on healthy "
        "| per 1000 records |"
    )
    print("|---|---|---|---|---|---|---|")
    print("\n".join(map(str, table(cases))) + "\n")
    own = {alarm.rule for case in cases for alarm in case.alarms} - {rule.name for rule in PUBLISHED}
    for case in cases:
        alarms = picked(case, own, (Severity.WARNING, Severity.CRITICAL))
        reported = ", ".join(f"{alarm.rule} {alarm.severity.value} at record {alarm.at}" for alarm in alarms)
        kind = "unstable" if case.unstable else "healthy"
        print(f"{case.name}: {kind}, onset at record {case.onset}: {reported or 'nothing'}")
    print("\n| log | all records | " + " | ".join(f"1 of {every}" for every in THINNED) + " |")
    print("|---|---|" + "---|" * len(THINNED))
    for folder_of in sorted(Path(folder).glob("*/label.json")):
        print(f"| {folder_of.parent.name} | {' | '.join(outcomes(folder_of.parent))} |")


def outcomes(folder: Path) -> list[str]:
    """Return the results of a log with all its records, and thinned."""
    label = json.loads((folder / "label.json").read_text("utf-8"))
    log = open_log(log_of(folder))
    items = list(log.items())
    return [
        f"{outcome_of(case)} ({len(case.steps)})"
        for every in (1, *THINNED)
        for case in [
            evaluated(
                LabelledLog(folder.name, str(label["label"]).startswith("UNSTABLE")),
                label,
                thinned(items, every) if every > 1 else items,
                log.planned_steps,
            )
        ]
    ]


if __name__ == "__main__":
    main()
