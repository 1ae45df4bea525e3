"""The command ``tocsin-server backtest``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.core.values import counted
from tocsin_server.cli.options import Config, DatabaseUrl, DataDir, settings_of
from tocsin_server.core.errors import TocsinError

if TYPE_CHECKING:
    from tocsin_server.offline.backtest_score import Tested
    from tocsin_server.store.reader import StoreReader
    from tocsin_server.store.results import StoredRun

SHOWN = 40
"""Maximum number of firings per run in the text output; --json has all."""


def backtest(
    rule: Annotated[str, typer.Argument(help="The id of a built-in rule, such as loss-spike.")],
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Log files.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting that differs from its default. Repeatable."
        ),
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A stored run, by id or name. Repeatable.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="All stored runs of this project.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Show where a rule with these settings would have fired in log files and stored runs.

    Reads only. All other rules use their defaults; they determine which steps were healthy.
    """
    from tocsin.importers import UnreadableLogError
    from tocsin_server.cli.database import opened
    from tocsin_server.core import exact_json
    from tocsin_server.offline.backtest import Backtest
    from tocsin_server.offline.backtest_score import settings_of as rule_settings_of
    from tocsin_server.offline.backtest_score import summary_of
    from tocsin_server.store.reader import StoreReader

    if not (files or runs or project):
        raise TocsinError("Nothing to test. Pass log files, --run or --project.")
    try:
        test = Backtest(rule, rule_settings_of(rule, dict(_pair(text) for text in changes or ())))
        tested = [test.of_file(path) for path in files or ()]
        if runs or project:
            with opened(settings_of(database_url, data_dir, config)) as database:
                reader = StoreReader(database)
                tested += [test.of_run(reader, stored) for stored in _stored(reader, runs or [], project)]
    except UnreadableLogError as error:
        raise TocsinError(str(error)) from error
    reported = summary_of(rule, test.settings, tested)
    print(exact_json.dumps(reported) if as_json else "\n".join(_text(reported, tested)))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise TocsinError(f"--set: expected NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _stored(reader: StoreReader, runs: list[str], project: str | None) -> list[StoredRun]:
    from tocsin_server.transfer.record_export import find_run

    found = [reader.run(find_run(reader, run)) for run in runs]
    if project is not None:
        mine = [stored for stored in reader.runs() if stored.project == project]
        if not mine:
            raise TocsinError(f"Project {project!r} has no runs.")
        found += mine
    return [stored for stored in found if stored is not None]


def _text(reported: dict[str, Any], tested: list[Tested]) -> Iterator[str]:
    rates = reported["alerts_per_1000_healthy_steps"]
    settings = ", ".join(f"{name}={value}" for name, value in reported["settings"].items())
    yield f"{reported['rule']} with {settings}"
    counts = f"{reported['steps']} steps, {reported['healthy_steps']} healthy"
    yield f"{counted(reported['firings'], 'firing')} in {counted(len(tested), 'run')}, {counts}"
    for severity, rate in rates.items():
        shown = "-" if rate is None else f"{rate:.3g}"
        yield f"  {severity} and above, alerts per 1000 healthy steps: {shown}"
    for run in tested:
        yield ""
        fired = counted(len(run.firings), "firing")
        yield f"{run.run}: {run.steps} steps, {run.healthy_steps} healthy, {fired}"
        if run.cut:
            yield f"  Note: {run.cut}."
        for firing in run.firings[:SHOWN]:
            where = "on healthy steps" if firing.healthy else "where other rules fired too"
            yield (
                f"  step {firing.step} {firing.severity.value} {firing.subject}, since {firing.onset_step}, "
                f"{where}: {firing.summary}"
            )
        if len(run.firings) > SHOWN:
            yield f"  and {len(run.firings) - SHOWN} more (--json has them)"
