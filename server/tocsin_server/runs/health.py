"""Report the state of the record path as numbers that an operator can act on."""

from __future__ import annotations

from typing import Any

from tocsin_server.runs.pipeline import Pipeline


def health_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return backlog, throughput and failures of the record path, as ``/health`` shows them."""
    store, pressure, counted = pipeline.store, pipeline.pressure, pipeline.counts
    processes = pipeline.registry.processes
    runs = pipeline.registry.active.values()
    return {
        "backlog_bytes": pressure.backlog_bytes,
        "backlog_limit_bytes": pipeline.settings.backlog_bytes,
        "commit_s": store.last_commit_s,
        "failing": store.failing or pipeline.jobs.outage,
        "pressed": pressure.pressed,
        "flush_ms": pressure.flush_ms(),
        "tick_ms": pressure.tick_ms,
        "lag_ms": pipeline.durability.lag_ms(),
        "rule_crashes": sum(run.crashes for run in runs),
        "rules_disabled": [{"run": run, "rule": rule} for run, rule in processes.disabled],
        "rule_processes": len(processes.live),
        "rule_process_restarts": processes.restarts,
        "rule_process_problem": processes.problem,
        "training_processes": sum(state.connections for run in runs for state in run.writers.values()),
        "runs": len(runs),
        "restoring": len(pipeline.restorer.waiting),
        "rejected": counted.refused,
        "rejected_write_batches": store.rejected_batches,
        "gaps": counted.gaps,
    }
