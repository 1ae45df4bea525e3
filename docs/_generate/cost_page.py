"""The page about costs, with the figures of ``benchmarks/baselines`` when the site is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tables import table

BASELINES = Path(__file__).parents[2] / "benchmarks" / "baselines"
LOOPS = {
    "fp32": ("MLP", "MLP, fp32, SGD"),
    "amp": ("transformer", "small transformer, fp16, AdamW"),
}
"""Kind of training -> the loop that was measured on the CPU, and on CUDA."""
SHARED = {
    "connection": "network, connection",
    "step_bytes": "network, step",
    "value_bytes": "network, value",
    "sealed": "disk, float32, sealed",
    "server": "server, 200 processes",
}
"""Constants that do not depend on the training machine's device."""
FLEET_STEPS = 2000
"""Steps per second of the 200 training processes whose server was measured."""
TEXT = """\
# What tocsin costs

*Explanation, with a calculator. When this site is built, the figures are read from
[the baselines of the benchmarks]({baselines}).*

The hook adds host time to every step. How much depends on the training loop, hardly on the size of the
model, so the
share falls as steps get longer. On a GPU that is always busy, the host runs ahead of the device and part of
that time is hidden; the calculator gives the whole.

{form}

## The figures

{figures}

A cost below the noise of its measurement is shown as 0. The figures of the H100 are of 2026-11-23, when the
hook still launched kernels at every step; [what it does since then](../internals/overhead.md) was not
measured on a device.

How to calculate with them:

- **Time per step**: automatic capture, plus one `log` for each call of your own. If the script neither
  computes nor clips the
  gradient norm, tocsin computes it at some steps, so seldom that it adds about 1 % at most
  (`grad_norm=False` turns it off).
- **Network**: the idle connection, plus the bytes of each step and of each value. TCP and IP headers come
  on top.
- **Database**: the bytes of each value once its chunk is [sealed](../internals/storage.md). Until then, the
  newest values
  take about ten times as much.
- **Server**: measured at 10 steps/s per process. Faster processes send larger batches, which cost less per
  step, so
  this is an upper estimate. Open pages come on top.

For example, 8 processes with steps of 30 ms and 6 series send about 267 steps and 1600 values per second.

## Where the figures come from

{machines}

`make bench` measures the figures, and `make bench-baseline` updates the baseline of your machine. [Overhead,
measured](../internals/overhead.md) compares tocsin with other trackers and describes the method;
[Storage](../internals/storage.md#measured) has the server's figures.
"""
FORM = """\
<form id="cost" class="cost" hidden>
<label>Measured on <select name="machine">{options}</select></label>
<label>Step time, ms
<input name="step" type="number" inputmode="decimal" min="0.01" step="any" value="30"></label>
<label>Precision
<select name="loop"><option value="fp32">fp32 or bf16</option>
<option value="amp" selected>fp16 with a GradScaler</option></select></label>
<label>Training processes (GPUs)
<input name="processes" type="number" inputmode="numeric" min="1" value="8"></label>
<label>The script computes or clips the gradient norm
<select name="clips"><option value="1">yes</option><option value="0">no</option></select></label>
<label>Your own log calls per step
<input name="logs" type="number" inputmode="decimal" min="0" step="any" value="0"></label>
<label>Series per process
<input name="series" type="number" inputmode="numeric" min="1" value="6"></label>
<label>Hours of training per day
<input name="hours" type="number" inputmode="decimal" min="0" max="24" step="any" value="24"></label>
<dl aria-live="polite">
<dt>Added to each step</dt><dd><output name="added"></output></dd>
<dt>Network, all processes</dt><dd><output name="network"></output></dd>
<dt>Database per day</dt><dd><output name="disk"></output></dd>
<dt>Server, all processes</dt><dd><output name="server"></output></dd>
</dl>
</form>
<script type="application/json" id="cost-figures">{data}</script>
<script src="../../assets/cost.js" defer></script>
"""
REPOSITORY = "https://github.com/tocsin-ml/tocsin/tree/main/benchmarks/baselines"


def page() -> str:
    """Return the Markdown of the page."""
    baselines = {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted(BASELINES.glob("*.json"), reverse=True)
    }
    machines = {kind: found for kind, one in baselines.items() if (found := _costs(one))}
    shared = _shared(list(baselines.values()))
    names = {kind: _name(baselines[kind]["machine"]) for kind in machines}
    options = "".join(f'<option value="{kind}">{name}</option>' for kind, name in names.items())
    data = json.dumps({"machines": machines, "shared": shared})
    return TEXT.format(
        baselines=REPOSITORY,
        form=FORM.format(options=options, data=data),
        figures=_figures(machines, names, shared),
        machines="\n".join(f"- {_provenance(one)}" for one in baselines.values()),
    )


def _costs(baseline: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return for each kind of training the microseconds of the hook, of `log`, and of a step; or nothing."""
    figures, gpu = baseline["figures"], baseline["machine"]["gpu"]
    found = {}
    for kind, names in LOOPS.items():
        name = f"{names[1]} on CUDA" if gpu else f"{names[0]} on the CPU"
        wanted = {
            "hook": f"hook, {name}",
            "log": f"log of 4 values, {name}",
            "step": f"step, {name}" if gpu else f"step of the {name}",
        }
        if all(each in figures for each in wanted.values()):
            found[kind] = {key: max(0.0, figures[each]["value"]) for key, each in wanted.items()}
    return found if len(found) == len(LOOPS) else {}


def _shared(baselines: list[dict[str, Any]]) -> dict[str, float]:
    """Return the newest value of each constant of `SHARED`."""
    found = {}
    for key, name in SHARED.items():
        of_name = [one["figures"][name] for one in baselines if name in one["figures"]]
        if of_name:
            found[key] = max(of_name, key=lambda one: str(one["date"]))["value"]
    if "server" in found:
        found["server"] /= FLEET_STEPS
    return found


def _figures(machines: dict[str, Any], names: dict[str, str], shared: dict[str, float]) -> str:
    rows = [
        (
            f"{what}, {names[kind]}",
            f"{_number(one['hook'])} us",
            f"{_number(one['log'])} us",
            f"{one['step'] / 1e3:.1f} ms",
        )
        for kind, loops in machines.items()
        for what, one in (("fp32", loops["fp32"]), ("mixed precision with a GradScaler", loops["amp"]))
    ]
    head = ("Training", "Automatic capture, per step", "`log` of 4 values", "Measured in a step of")
    units = {
        "connection": ("Idle connection", "bytes/s"),
        "step_bytes": ("Network, per step", "bytes"),
        "value_bytes": ("Network, per value", "bytes"),
        "sealed": ("Database, per value", "bytes"),
        "server": ("Server, per 1000 steps/s", "% of a core"),
    }
    constants = [
        (units[key][0], f"{_number(value * (1000 if key == 'server' else 1))} {units[key][1]}")
        for key, value in shared.items()
    ]
    return table(head, rows) + "\n" + table(("", ""), constants)


def _name(machine: dict[str, Any]) -> str:
    return machine["gpu"] or f"CPU only: {machine['cpus']} cores, {machine['cpu']}"


def _provenance(baseline: dict[str, Any]) -> str:
    """Return the machine of a baseline, and when and with which version its figures were measured."""
    machine = baseline["machine"]
    dates = sorted({one["date"] for one in baseline["figures"].values()})
    versions = sorted({one["version"] for one in baseline["figures"].values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    system = f"Python {machine['python']}, torch {machine['torch']}"
    cpus = f"{machine['cpus']} CPUs" + (f" ({machine['cpu']})" if machine["cpu"] else "")
    gpu = f"{machine['gpu']}, " if machine["gpu"] else ""
    return f"{gpu}{cpus}, {system}: {len(baseline['figures'])} figures, {when}, tocsin {', '.join(versions)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
