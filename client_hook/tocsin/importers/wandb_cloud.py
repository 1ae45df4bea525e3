"""Weights & Biases: runs in its cloud or on a server of your own, read with the package wandb.

The package finds the API key where ``wandb login`` put it, downloads the complete history, and repeats
requests that fail or exceed the rate limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .formats.wandb import EVERY_METRIC, row_of
from .items import About, Fact, Parsed
from .source import TrackedRun, UnreadableSource
from .tracker import Found

KIND = "W&B server"
PUBLIC = ("wandb.ai", "www.wandb.ai", "api.wandb.ai", "forge.coreweave.com", "api.forge.coreweave.com")
"""Hosts of W&B's cloud, which has one set of runs."""
PAGES = ("workspace", "table", "overview", "runs")
"""Pages of a project, at the end of its address in the browser."""
FAILED = ("failed", "crashed")
"""States of runs that ended with an error."""
MOST_TEXT = 300
"""Maximum number of characters of W&B's own message in an error."""
MISSING = "the package wandb is missing. Install it: pip install wandb"
NO_KEY = "no W&B API key. Run `wandb login`, or set WANDB_API_KEY"
EXPECTED = (
    "expected wandb://ENTITY/PROJECT, wandb://ENTITY/PROJECT/RUN, or the address of a project or run on W&B"
)


@dataclass(frozen=True)
class Address:
    """A project, or one run of it."""

    entity: str
    project: str
    run: str = ""
    host: str = ""
    """Host that the address names; empty for the server that the package is configured for."""

    def __str__(self) -> str:
        return "/".join(part for part in (self.entity, self.project, self.run) if part)


def address_of(text: str) -> Address | None:
    """Return what ``text`` addresses, or None if it is a path.

    Raises:
        ValueError: It is the address of something else.
    """
    if "://" not in text:
        return None
    url = urlsplit(text)
    names = [unquote(name) for name in url.path.split("/") if name]
    if url.scheme == "wandb":
        names, host = [unquote(url.netloc), *names], ""
    else:
        host = url.netloc.lower()
        names = names[1:] if host in PUBLIC and names[:1] == ["wandb"] else names
    if url.scheme not in ("wandb", "http", "https") or len(names) < 2 or not all(names):
        raise ValueError(f"{EXPECTED}, got {text}")
    entity, project, *rest = names
    if rest[:1] == ["runs"] and len(rest) > 1:
        return Address(entity, project, rest[1], host)
    if not rest or (len(rest) == 1 and host and rest[0] in PAGES):
        return Address(entity, project, "", host)
    if len(rest) == 1 and not host:
        return Address(entity, project, rest[0])
    raise ValueError(f"{EXPECTED}, got {text}")


def runs_at(address: Address) -> Iterator[Found]:
    """Yield the runs of a project, oldest first, or the one run. What cannot be read is yielded with the
    reason.
    """
    try:
        api = _connected(address)
        host = _host(api.settings["base_url"])
        with _explained(address):
            listed = iter([api.run(str(address))] if address.run else api.runs(str(address)))
        while True:
            with _explained(address):
                run = next(listed, None)
            if run is None:
                return
            yield _source(run, address, host)
    except OSError as error:
        yield UnreadableSource(Path(str(address)), str(error))


def _connected(address: Address) -> Any:
    """Return the package's API with the key that it finds.

    Raises:
        OSError: The package or a key is missing, the server does not answer, or the address is of another
            server.
    """
    os.environ.setdefault("WANDB_SILENT", "true")  # else a missing key is asked for
    try:
        package = import_module("wandb")
    except ModuleNotFoundError as error:
        raise OSError(MISSING if error.name == "wandb" else f"wandb cannot be imported: {error}") from error
    except Exception as error:
        raise OSError(f"wandb cannot be imported: {_reason(error)}") from error
    if not hasattr(package, "Api"):  # a folder ``wandb`` of runs
        raise OSError(MISSING)
    try:
        api = package.Api()
    except Exception as error:
        raise OSError(NO_KEY if type(error).__name__ == "UsageError" else _reason(error)) from error
    base = api.settings["base_url"]
    if address.host and _host(f"//{address.host}") != _host(base):
        raise OSError(f"wandb is set up for {base}. Set WANDB_BASE_URL to the server at {address.host}")
    return api


def _host(url: str) -> str:
    """Return host and port, and the same name for all hosts of W&B's cloud."""
    host = urlsplit(url).netloc.lower()
    return PUBLIC[0] if host in PUBLIC else host


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    """Raise what the package raises, which depends on its version, as OSError with one sentence."""
    try:
        yield
    except Exception as error:
        why = _reason(error)
        if "could not find" in why.lower():
            what = "run" if address.run else "project"
            why = f"there is no such {what}, or your API key may not read it"
        raise OSError(why) from error


def _reason(error: Exception) -> str:
    why = " ".join(str(error).split())[:MOST_TEXT] or type(error).__name__
    return f"{why.rstrip('.')}. Check the network and WANDB_BASE_URL" if "did not respond" in why else why


def _source(run: Any, address: Address, host: str) -> Found:
    path = Path(address.entity, address.project, run.id)
    try:
        return TrackedRun(path, KIND, _about(run, address, host), partial(_read, run))
    except Exception as error:
        return UnreadableSource(path, _why_of(run, error))


def _about(run: Any, address: Address, host: str) -> About:
    config = {name: value for name in ("group", "job_type") if (value := getattr(run, name, None))}
    return About(
        name=run.name or run.id,
        project=address.project,
        config={**config, **run.config},
        tags=tuple(map(str, run.tags or ())),
        key=f"wandb:{host}:{address.entity}/{address.project}/{run.id}",
        notes=run.notes or "",
        error=f"W&B says that the run {run.state}" if run.state in FAILED else "",
        began_ns=_nanoseconds(run.created_at),
    )


def _nanoseconds(stamp: Any) -> int:
    """Return an ISO time in UTC as Unix ns; the present time if it is none."""
    try:
        began = datetime.fromisoformat(str(stamp).removesuffix("Z")).replace(tzinfo=timezone.utc)
    except ValueError:
        return time.time_ns()
    return int(began.timestamp()) * 1_000_000_000


def _read(run: Any) -> Iterator[Parsed]:
    """Yield the history, then the summary of a run that has ended.

    Raises:
        OSError: The history ends here.
    """
    try:
        axis, line = _axis(run), 0
        for line, record in enumerate(_history(run), 1):
            row = row_of(_flat(record), line, axis, line - 1)
            if row is not None:
                yield row
        summary = {} if run.state == "running" else _shown(run.summary_metrics)
    except Exception as error:
        raise OSError(_why_of(run, error)) from error
    if line and summary:
        yield Fact(line, "environment", {"summary": summary})


def _history(run: Any) -> Any:
    """Return the records, in order. The package's cache does not notice that W&B exported a run again."""
    has_cache = "use_cache" in signature(run.scan_history).parameters
    return run.scan_history(use_cache=False) if has_cache else run.scan_history()


def _why_of(run: Any, error: Exception) -> str:
    """Return why a run that was listed cannot be read."""
    try:
        run.load(force=True)
    except Exception as gone:
        error = gone
    why = _reason(error)
    return "the run was deleted" if "could not find" in why.lower() else why


def _axis(run: Any) -> str:
    """Return the metric of ``define_metric("*", step_metric=...)``; empty if there is none.

    Field numbers: MetricRecord in wandb/proto/wandb_internal.proto.
    """
    raw = getattr(run, "rawconfig", None) or {}
    own = raw.get("_wandb")
    metrics = own.get("m") if isinstance(own, dict) else None
    metrics = [one for one in metrics if isinstance(one, dict)] if isinstance(metrics, list) else []
    for metric in metrics:
        place = metric.get("5")
        if metric.get("2") == EVERY_METRIC and isinstance(place, int) and 0 < place <= len(metrics):
            return str(metrics[place - 1].get("1", ""))
    return ""


def _flat(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values, those of nested mappings as ``val.acc``; media are left out."""
    for name, value in record.items():
        if not isinstance(value, dict):
            yield f"{prefix}{name}", value
        elif "_type" not in value:
            yield from _flat(value, f"{prefix}{name}.")


def _shown(summary: dict[str, Any]) -> dict[str, Any]:
    """Return results without W&B's own and without media."""
    return {
        name: value
        for name, value in summary.items()
        if not name.startswith("_") and not (isinstance(value, dict) and "_type" in value)
    }
