"""Metadata of a run that rules read: scalers, optimizers, schedules, planned length.

It is built from the data of the handshake and updated by events; rules never modify it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tocsin.protocol import MOST_STEP
from tocsin_server.core.checkpoints import KINDS as CHECKPOINT_KINDS
from tocsin_server.core.checkpoints import Checkpoint, after_event, last_good_checkpoint
from tocsin_server.detect.interface.layers import NAMES as LAYER_NAMES
from tocsin_server.detect.interface.layers import VECTORS as LAYER_VECTORS
from tocsin_server.detect.interface.layers import LayerNorms
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.detect.interface.similar_runs import SimilarRuns

PRECISION = "precision"
"""Kind of the event with the quantum of a series, sent by importers of logs."""
REINFORCEMENT = {"gymnasium", "gym", "stable_baselines3", "torchrl", "tianshou", "pettingzoo", "dm_env"}
"""Libraries that only reinforcement learning imports."""
EXPECTED = 4096
"""Maximum number of declared steps kept per kind of change; the oldest are dropped."""
CHECKPOINTS = 64
INPUTS = 16
BATCHES = 64
SCHEDULES = 64
NAMES = 256
"""Maximum number of loss components, metrics and optimizers' norms kept per run; later ones are ignored."""
LONGEST_NAME = 256
"""Maximum number of characters kept of a name in an event."""


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """Settings of a loss scaler; the defaults are those of ``torch.amp.GradScaler``."""

    enabled: bool = True
    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    """Number of clean updates before the scale grows."""
    min_scale: float = 0.0
    """The lower limit of the scale; 0 if the scaler has none (torch)."""

    @property
    def healthy_rate(self) -> float:
        """Return the overflows per update of a healthy scaler, at which backoff and growth balance.

        p* = ln(1 + ln(growth) / ln(1 / backoff)) / growth_interval, which is 3.5e-4 with the defaults.
        """
        ratio = math.log(self.growth_factor) / math.log(1.0 / self.backoff_factor)
        return math.log1p(ratio) / self.growth_interval

    @classmethod
    def from_plain(cls, environment: Mapping[str, Any]) -> ScalerSettings:
        """Return the settings from the data of a handshake; invalid values are replaced by the defaults."""
        default = cls()
        growth = _positive(environment.get("growth_factor"), default.growth_factor)
        backoff = _positive(environment.get("backoff_factor"), default.backoff_factor)
        return cls(
            enabled=bool(environment.get("enabled", True)),
            init_scale=_positive(environment.get("init_scale"), default.init_scale),
            growth_factor=growth if growth > 1.0 else default.growth_factor,
            backoff_factor=backoff if backoff < 1.0 else default.backoff_factor,
            growth_interval=max(
                1, int(_positive(environment.get("growth_interval"), default.growth_interval))
            ),
            min_scale=_positive(environment.get("min_scale"), default.min_scale),
        )


def _positive(value: Any, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return float(value) if math.isfinite(value) and value > 0 else default


@dataclass(frozen=True, slots=True)
class RunContext:
    """Immutable metadata of a run that rules may read. Unknown values are None or empty."""

    run_id: str = ""
    project: str = ""
    world_size: int = 1
    planned_steps: int | None = None
    libraries: frozenset[str] = frozenset()
    """Libraries imported by the training process, as far as they matter to a rule."""
    scalers: Sequence[Mapping[str, Any]] = ()
    optimizers: Sequence[Mapping[str, Any]] = ()
    schedulers: Sequence[Mapping[str, Any]] = ()
    norm_sources: Mapping[str, str] = field(default_factory=dict)
    """By optimizer suffix: where the grad norm is measured (clip, own, local)."""
    clips: Mapping[str, float | None] = field(default_factory=dict)
    """By optimizer suffix: the clipping threshold of the gradient norm, or None without clipping."""
    scaled_norms: tuple[str, ...] = ()
    """Suffixes of optimizers whose norm was computed on scaled gradients, as seen by the hook."""
    expected: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Changes declared by the script (``run.expect``) and their steps."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The newest ``CHECKPOINTS`` checkpoints that still exist, oldest first."""
    attempt: int = 0
    """The newest attempt whose hook has begun, or 0."""
    components: tuple[str, ...] = ()
    """Names of the terms of the loss (``run.check(losses=...)``), reported as ``loss/<name>``."""
    metrics: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Goal (max, min or empty) and unit of evaluation metrics by series name (``val/psnr``)."""
    quanta: Mapping[str, float] = field(default_factory=dict)
    """By series that a log prints with few decimals: the distance between two numbers that it can print."""
    siblings: SimilarRuns = field(default_factory=SimilarRuns)
    """Similar runs of the same project."""
    bad_inputs: tuple[tuple[int, str], ...] = ()
    """Step and description of the newest ``INPUTS`` non-finite inputs."""
    batches: tuple[tuple[int, str], ...] = ()
    """Step and name of the newest ``BATCHES`` batches of unusual steps, if the script names them."""
    layers: LayerNorms = field(default_factory=lambda: LayerNorms({}, ()))
    """Gradient norms of single layers at the newest reported steps."""

    @classmethod
    def from_environment(
        cls,
        run_id: str,
        project: str,
        world_size: int,
        planned_steps: int | None,
        environment: Mapping[str, Any],
    ) -> RunContext:
        """Return the context of a run from the stored data of its handshake.

        Args:
            run_id: The run's id.
            project: The run's project.
            world_size: Number of ranks.
            planned_steps: Expected number of steps, or None.
            environment: Data of the handshake: versions, optimizers, scalers, schedulers.
        """
        return cls(
            run_id=run_id,
            project=project,
            world_size=world_size,
            planned_steps=planned_steps,
            libraries=frozenset(environment.get("versions") or ()),
            scalers=tuple(environment.get("scalers") or ()),
            optimizers=tuple(environment.get("optimizers") or ()),
            schedulers=tuple(environment.get("schedulers") or ()),
        )

    @property
    def is_reinforcement(self) -> bool:
        """Return whether the run trains an agent, whose loss depends on the data that it collects."""
        return not self.libraries.isdisjoint(REINFORCEMENT)

    def is_component(self, suffix: str) -> bool:
        """Return whether ``loss/<suffix>`` is a term of the loss instead of an optimizer's loss."""
        return suffix in self.components

    @property
    def has_scaler(self) -> bool | None:
        """Return whether any reported scaler is enabled, or None if no scalers were reported."""
        if not self.scalers:
            return None
        return any(ScalerSettings.from_plain(environment).enabled for environment in self.scalers)

    def scaler(self, suffix: str) -> ScalerSettings | None:
        """Return the settings of the scaler of the optimizer ``suffix``, or None if no scaler was reported.

        An optimizer without an entry gets the settings of the first scaler; ``""`` is the primary
        optimizer.
        """
        for environment in self.scalers:
            if suffix and suffix in (environment.get("name"), environment.get("optimizer")):
                return ScalerSettings.from_plain(environment)
        return ScalerSettings.from_plain(self.scalers[0]) if self.scalers else None

    def checkpoint_before(self, step: int) -> tuple[int, str] | None:
        """Return step and path of the newest complete checkpoint at or before ``step``."""
        saved = last_good_checkpoint(self.checkpoints, step + 2).checkpoint
        return None if saved is None else (saved.step, saved.path)

    def last_good_checkpoint(self, onset_step: int) -> Checkpoint | None:
        """Return the newest checkpoint from which a run can resume whose problem began at ``onset_step``.

        Only those of the newest attempt: an earlier attempt may have gone beyond the step from which the
        newest one resumed, and may have failed there.
        """
        newest = [saved for saved in self.checkpoints if saved.attempt >= self.attempt]
        return last_good_checkpoint(newest, onset_step).checkpoint

    def learn(self, kind: str, step: int | None, data: Mapping[str, Any], *, attempt: int = 0) -> RunContext:
        """Return the context after an event of ``kind`` at ``step``; unknown kinds leave it unchanged.

        Args:
            kind: Kind of the event.
            step: Step of the event, or None.
            data: Data of the event.
            attempt: Attempt of the process that sent it.
        """
        if kind in CHECKPOINT_KINDS:
            known = after_event(self.checkpoints, kind, step, data, most=CHECKPOINTS, attempt=attempt)
            return self if known == self.checkpoints else replace(self, checkpoints=known)
        if kind == "attached":
            return replace(self, **_known_source(data), attempt=max(self.attempt, attempt))
        if kind == "environment" and type(planned := data.get("planned_steps")) is int and planned > 0:
            return replace(self, planned_steps=planned)
        if kind == "grad-norm-source":
            return self._norm_source(data)
        if kind == "schedule":
            others = [item for item in self.schedulers if item.get("optimizer") != data.get("optimizer")]
            return replace(self, schedulers=(*others, dict(data))[-SCHEDULES:])
        if kind == "expect":
            return self._with_expected(_name(data.get("what", "")), data.get("steps"))
        if kind == "loss-components":
            return self._with_components(data.get("names"))
        if kind == "metric":
            return self._with_metric(data)
        if kind == PRECISION:
            return self._with_quantum(data)
        if kind == SIMILAR_RUNS:
            return replace(self, siblings=SimilarRuns.from_plain(data))
        if kind == "nonfinite-input" and step is not None:
            reported = tuple((step, text) for text in _inputs(data.get("inputs")))
            return replace(self, bad_inputs=(*self.bad_inputs, *reported)[-INPUTS:])
        if kind == "batch" and step is not None:
            return replace(self, batches=(*self.batches, (step, batch_name(data.get("id"))))[-BATCHES:])
        if kind in (LAYER_NAMES, LAYER_VECTORS):
            return replace(self, layers=self.layers.learn(kind, step, data))
        return self

    def _with_expected(self, what: str, reported: Any) -> RunContext:
        """Add declared steps of a change.

        The data come from ``run.event`` and may be anything: values that are no steps are ignored.
        """
        given = reported if isinstance(reported, (list, tuple)) else [reported]
        numbers = (step for step in given if isinstance(step, (int, float)))
        steps = tuple(int(step) for step in numbers if 0 <= step <= MOST_STEP)
        if not steps or (what not in self.expected and len(self.expected) >= NAMES):
            return self
        known = (*self.expected.get(what, ()), *steps)[-EXPECTED:]
        return replace(self, expected={**self.expected, what: known})

    def _with_components(self, names: Any) -> RunContext:
        reported = [_name(name) for name in names] if isinstance(names, (list, tuple)) else []
        fresh = tuple(name for name in dict.fromkeys(reported) if name not in self.components)
        return replace(self, components=(*self.components, *fresh)[:NAMES]) if fresh else self

    def _with_metric(self, data: Mapping[str, Any]) -> RunContext:
        name = _name(data.get("name", ""))
        if name not in self.metrics and len(self.metrics) >= NAMES:
            return self
        reported = (_name(data.get("goal") or "").lower(), _name(data.get("unit") or ""))
        return replace(self, metrics={**self.metrics, name: reported})

    def _with_quantum(self, data: Mapping[str, Any]) -> RunContext:
        name, quantum = _name(data.get("name", "")), _positive(data.get("quantum"), 0.0)
        if quantum == self.quanta.get(name, 0.0) or (name not in self.quanta and len(self.quanta) >= NAMES):
            return self
        others = {known: value for known, value in self.quanta.items() if known != name}
        return replace(self, quanta={**others, name: quantum} if quantum else others)

    def _norm_source(self, data: Mapping[str, Any]) -> RunContext:
        """Store an optimizer's norm source and clipping threshold, and whether its norm is scaled."""
        suffix = _name(data.get("series", data.get("optimizer")) or "")
        if suffix not in self.norm_sources and len(self.norm_sources) >= NAMES:
            return self
        scaled = tuple(name for name in self.scaled_norms if name != suffix)
        limit = data.get("clip")
        known = isinstance(limit, (int, float)) and not isinstance(limit, bool)
        return replace(
            self,
            norm_sources={**self.norm_sources, suffix: _name(data.get("source", ""))},
            clips={**self.clips, suffix: float(limit) if known else None},  # type: ignore[arg-type]
            scaled_norms=(*scaled, suffix) if data.get("scaled") else scaled,
        )

    def inputs_at(self, step: int) -> list[str]:
        """Return the descriptions of non-finite inputs of a step, such as ``image: 3 NaN of 4096``."""
        return [text for at, text in self.bad_inputs if at == step]

    def expects(self, what: str, start: int, stop: int) -> bool:
        """Return whether the script declared the change ``what`` between these steps, or without steps.

        ``what`` may be declared as a whole family: ``lr`` covers ``lr-restart`` and ``lr-jump``.

        Args:
            what: Identifier of the change, such as ``lr-restart``.
            start: First step.
            stop: Last step.
        """
        names = (what, what.partition("-")[0])
        declared = [self.expected[name] for name in names if name in self.expected]
        return any(not steps or any(start <= step <= stop for step in steps) for steps in declared)

    def learned(self) -> dict[str, Any]:
        """Return what events may have added, as plain data for a snapshot."""
        learned = {name: getattr(self, name) for name in _LEARNED}
        checkpoints = [saved.plain() for saved in self.checkpoints]
        parts = {"siblings": self.siblings.plain(), "layers": self.layers.plain()}
        return {**learned, **parts, "checkpoints": checkpoints}

    def relearn(self, learned: Mapping[str, Any]) -> RunContext:
        """Return the context with the data that events had added according to a snapshot.

        Scalers and optimizers of the handshake take precedence, because the handshake is newer.
        """
        expected = {what: tuple(steps) for what, steps in learned.get("expected", {}).items()}
        return replace(
            self,
            scalers=tuple(self.scalers or learned.get("scalers") or ()),
            optimizers=tuple(self.optimizers or learned.get("optimizers") or ()),
            schedulers=tuple(learned.get("schedulers") or self.schedulers),
            norm_sources=dict(learned.get("norm_sources", {})),
            clips=dict(learned.get("clips", {})),
            scaled_norms=tuple(learned.get("scaled_norms", ())),
            expected=expected,
            checkpoints=tuple(
                Checkpoint.from_plain(each)
                for each in learned.get("checkpoints", ())
                if isinstance(each, Mapping)
            ),
            components=tuple(learned.get("components", ())),
            metrics={name: (goal, unit) for name, (goal, unit) in learned.get("metrics", {}).items()},
            quanta=dict(learned.get("quanta", {})),
            attempt=int(learned.get("attempt", 0)),
            siblings=SimilarRuns.from_plain(learned.get("siblings", {})),
            bad_inputs=tuple((int(step), str(text)) for step, text in learned.get("bad_inputs", ())),
            batches=tuple((int(step), str(name)) for step, name in learned.get("batches", ())),
            layers=LayerNorms.from_plain(learned.get("layers", {})),
        )


def batch_name(identifier: Any) -> str:
    """Return what ``run.batch`` was given as text, such as ``shard 12, index 3``."""
    if isinstance(identifier, Mapping):
        text = ", ".join(f"{key} {value}" for key, value in sorted(identifier.items(), key=str)[:8])
    elif isinstance(identifier, (list, tuple)):
        text = "samples " + ", ".join(str(value) for value in identifier[:8])
    else:
        text = f"batch {identifier}"
    return text[:LONGEST_NAME]


_LEARNED = (
    "scalers", "optimizers", "schedulers", "norm_sources", "clips", "scaled_norms", "expected",
    "attempt", "components", "metrics", "quanta", "bad_inputs", "batches",
)  # fmt: skip


def _name(value: Any) -> str:
    return str(value)[:LONGEST_NAME]


def _inputs(inputs: Any) -> list[str]:
    """Return one line per input described by an event; malformed entries are skipped."""
    lines = []
    for one in inputs if isinstance(inputs, (list, tuple)) else ():
        if isinstance(one, Mapping):
            kinds = (("nan", "NaN"), ("pinf", "+Inf"), ("ninf", "−Inf"))
            counts = [
                f"{one[key]} {word}" for key, word in kinds if isinstance(one.get(key), int) and one[key]
            ]
            lines.append(f"{str(one.get('name', ''))[:160]}: {', '.join(counts)} of {one.get('of', '?')}")
    return lines[:INPUTS]


def _known_source(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``optimizers`` and ``scalers`` of an ``attached`` event.

    Entries that are not mappings are skipped.
    """
    reported: dict[str, Any] = {}
    for key in ("optimizers", "scalers"):
        items = data.get(key)
        if isinstance(items, (list, tuple)) and any(isinstance(item, Mapping) for item in items):
            reported[key] = tuple(item for item in items if isinstance(item, Mapping))
    return reported
