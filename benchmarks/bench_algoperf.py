"""Count the alerts on AlgoPerf logs by rule and judgment, with the default settings.

``ALGOPERF=folder python benchmarks/bench_algoperf.py``. The folder has ``labels.tsv`` (file, label of a
program, path in the AlgoPerf repository) and the logs. ``judged_alerts.tsv`` has one line per log and rule
that was judged by eye from the curves:

- deserved: whoever looks at the curve would want to know.
- gray: what the alert says is true, but the run was in no danger.
- undeserved: the run is healthy there.

An alert of at least warning severity without such a line is printed as "not judged", to be looked at.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tocsin.importers import open_log
from tocsin_server.core.models import Severity
from tocsin_server.offline.replay import evaluate_log

JUDGED = Path(__file__).with_name("judged_alerts.tsv")
JUDGMENTS = ("deserved", "gray", "undeserved", "not judged")
WITHOUT = "no_auto_finding"
"""Label of the logs in which the program found nothing."""


@dataclass(frozen=True)
class Log:
    """One log: its file, its label and its path in the AlgoPerf repository."""

    file: str
    label: str
    path: str


def logs_of(folder: Path) -> list[Log]:
    """Return the logs that ``labels.tsv`` of the folder lists."""
    with (folder / "labels.tsv").open(encoding="utf-8", newline="") as lines:
        return [Log(*row) for row in list(csv.reader(lines, delimiter="\t"))[1:]]


def judged() -> dict[tuple[str, str], str]:
    """Return the judgments by (path of the log, rule)."""
    with JUDGED.open(encoding="utf-8", newline="") as lines:
        return {(row["log"], row["rule"]): row["judgment"] for row in csv.DictReader(lines, delimiter="\t")}


def alerts_of(folder: Path, log: Log) -> dict[str, Severity]:
    """Return the highest severity of each rule that alerts on a log."""
    found: dict[str, Severity] = {}
    for alert in evaluate_log(open_log(folder / log.file)).alerts:
        known = found.get(alert.rule, Severity.INFO)
        found[alert.rule] = max(known, alert.severity, key=lambda severity: severity.level)
    return found


def by_severity(logs: Iterable[Log], alerts: Iterable[dict[str, Severity]]) -> Counter[tuple[bool, str]]:
    """Return the number of logs by (labeled without a finding, highest severity or none)."""
    counts: Counter[tuple[bool, str]] = Counter()
    for log, found in zip(logs, alerts, strict=True):
        highest = max(found.values(), key=lambda severity: severity.level, default=None)
        counts[log.label == WITHOUT, "none" if highest is None else highest.value] += 1
    return counts


def by_judgment(logs: Iterable[Log], alerts: Iterable[dict[str, Severity]]) -> Counter[tuple[str, str]]:
    """Return the number of logs by (rule, judgment), for alerts of at least warning severity."""
    known = judged()
    return Counter(
        (rule, known.get((log.path, rule), "not judged"))
        for log, found in zip(logs, alerts, strict=True)
        for rule, severity in found.items()
        if severity is not Severity.INFO
    )


def main() -> None:
    """Print both tables as Markdown, and the alerts that are not judged."""
    name = os.environ.get("ALGOPERF")
    if not name:
        print("alerts on AlgoPerf logs: set ALGOPERF to their folder; nothing was evaluated")
        return
    folder = Path(name)
    logs = logs_of(folder)
    with ProcessPoolExecutor() as workers:
        alerts = list(workers.map(partial(alerts_of, folder), logs, chunksize=8))
    severities = by_severity(logs, alerts)
    shown = ("critical", "warning", "info", "none")
    print(f"| {len(logs)} logs | {' | '.join(shown)} |\n|---|---|---|---|---|")
    for without, title in ((True, "labeled without a finding"), (False, "the other labels")):
        print(f"| {title} | {' | '.join(str(severities[without, each]) for each in shown)} |")
    rules = by_judgment(logs, alerts)
    print(f"\n| rule | {' | '.join(JUDGMENTS)} |\n|---|---|---|---|---|")
    for rule in sorted({rule for rule, _ in rules}):
        print(f"| {rule} | {' | '.join(str(rules[rule, each]) for each in JUDGMENTS)} |")
    known = judged()
    for log, found in zip(logs, alerts, strict=True):
        for rule, severity in found.items():
            if severity is not Severity.INFO and (log.path, rule) not in known:
                print(f"not judged: {rule} ({severity.value}) in {log.file}, {log.path}")


if __name__ == "__main__":
    main()
