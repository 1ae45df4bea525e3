"""State of one optimizer between two of its steps, and the names of the values in its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

from .gradient_samples import Pending, Sample, differs, has_hooks, sample_of
from .reading import sum_of, version_of

GROUPS = 64
"""Learning rates of at most this many parameter groups are reported."""
PROBES = 2
LOOKED_AT, LOOK_EVERY, LOOK_ON_DEVICE_EVERY = 8, 16, 128
"""The first steps, and later one in so many, in which changes of the gradients are looked for. On a device
each look needs nine kernels."""
_FIRST = (0,)

HAS_LOSS, HAS_NORM, HAS_SCALE, HAS_FOUND_INF, HAS_TIME, HAS_DATA, HAS_SUM = 1, 2, 4, 8, 16, 32, 64


BEFORE, AFTER, UNKNOWN = "before clipping", "after clipping", "unknown"
"""When a gradient norm was taken. Unknown: the script changed the gradients after the backward."""

Marks = tuple[list[Any], list[float]]
"""Gradients of the probes, and their version counters."""


@dataclass(slots=True, eq=False)
class Loss:
    """One backpropagated scalar: its unscaled value, and whether an attempted step has used it."""

    value: Any
    scaler: str | None = None
    """Name of the scaler that scaled it, or None."""
    scale: Any = None
    used: bool = False
    count: float = 1.0
    share: Any = None
    """By what it was divided (``accumulation.Share``); None if it was not divided, or not examined."""
    kept: bool = False
    """Whether its graph was kept (``retain_graph``) for another loss."""


def total_of(losses: list[Loss]) -> Any:
    """Return the sum of the values."""
    return losses[0].value if len(losses) == 1 else sum_of([loss.value for loss in losses])


def fold(losses: list[Loss]) -> None:
    """Bound a long accumulation: combine all losses but the newest into one with the same sum."""
    newest = losses[-1]
    folded = Loss(total_of(losses[:-1]), newest.scaler, newest.scale)
    folded.count = sum(loss.count for loss in losses[:-1])
    losses[:] = [folded, newest]


class OptimizerTracker:
    """State of one optimizer since its last record. ``number`` counts its attempted steps."""

    __slots__ = (
        "ask",
        "backward",
        "began",
        "clip",
        "clips_reported",
        "closure",
        "deferred",
        "depth",
        "doubts",
        "entered",
        "fetched",
        "fired",
        "found_inf",
        "gradient_id",
        "gradient_version",
        "has_flag",
        "in_scaler",
        "is_ahead",
        "layers",
        "left",
        "looks",
        "losses",
        "lr_groups",
        "lrs",
        "meaning",
        "most",
        "name",
        "names",
        "nested",
        "newest_names",
        "norm",
        "norm_from",
        "norm_scaled",
        "norm_timing",
        "number",
        "open",
        "outer",
        "params",
        "params_in",
        "peers",
        "pending",
        "place",
        "probes",
        "reached",
        "ref",
        "reported_source",
        "restored",
        "sample",
        "scale",
        "scaler",
        "spare",
        "suffix",
        "thread",
        "turn",
        "turns",
        "unscaled",
        "user_clips",
        "vector",
        "weights",
    )

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.name = ""
        """Empty until first needed."""
        self.suffix = ""
        self.number = 0
        self.names: dict[Any, tuple[str, ...]] = {}
        self.newest_names: tuple[int, tuple[int, ...], tuple[str, ...]] = (-1, (), ())
        """Flags, parameter groups and names of its newest record."""
        self.params: frozenset[int] = frozenset()
        self.params_in = -1
        self.probes: tuple[Any, ...] = ()
        self.reached = False
        """Whether a backward was ever seen to change its probes."""
        self.user_clips = False
        self.reported_source: tuple[str, bool, str, Any] | None = None
        self.norm_timing = BEFORE
        """When its own norms are taken; once it is not BEFORE, it stays so."""
        self.gradient_version: float = -1
        """Version of the first probe's gradient after the newest backward or unscaling; -1: it had none;
        NaN: unknown."""
        self.gradient_id = 0
        """id of that gradient: a script may replace it (``p.grad = p.grad * scale``)."""
        self.sample: Sample = {}
        """Values of the probes' gradients after the newest backward or unscaling; empty: none."""
        self.looks = True
        """Whether changes of the gradients are looked for in its next step."""
        self.pending: Pending = []
        """Comparisons whose result has not arrived from a device."""
        self.layers: Any = None
        """State that ``LayerNorms`` keeps for it."""
        self.restored = 0
        """Steps that it had made when its state was loaded, or at ``watch``."""
        self.clips_reported = 0
        self.began = 0
        """Start of the current step: ns of the monotonic clock, without pauses; 0 before the first step."""
        self.depth = self.entered = 0
        """Steps that have begun and not ended, and the number of backwards when the outermost began."""
        self.deferred = False
        self.place = 0
        """Position among the members of a step inside a backward, from 1."""
        self.nested = False
        """Whether its current step is part of the step of an outer optimizer."""
        self.weights = 0
        """Version counter of the first probe at the newest backward."""
        self.in_scaler = False
        self.fired = False
        self.has_flag = False
        """Whether its scaler has flags of non-finite gradients."""
        self.closure = False
        self.losses: list[Loss] = []
        self.spare: Loss | None = None
        """A loss of an earlier step that is filled again, because making one is slow with cold caches."""
        self.meaning: str | None = None
        """Why the losses of its micro-steps are parts of one loss, empty if each is whole; None before the
        first step with several losses."""
        self.doubts = 0
        """Number of steps in a row that contradict ``meaning``."""
        self.fetched = 0
        """Batches that the run had fetched at its newest record."""
        self.turn: tuple[int, int] = (0, 0)
        """The lead optimizer (its id) at its last step, and the number of steps that the lead had made."""
        self.turns = self.most = 0
        """Its steps since then, and the maximum between two steps of the lead."""
        self.is_ahead = False
        """Whether it steps before the lead in each iteration, so that its records belong to the next step."""
        self.outer: Any = None
        """Weak reference to DeepSpeed's outer optimizer; () if there is none, None before the search."""
        self.thread = self.backward = 0
        """The thread that last stepped it or zeroed its gradients, and the number of its newest backward."""
        self.peers: tuple[OptimizerTracker, ...] | None = None
        """Other optimizers that share parameters with it; None if the search must be repeated."""
        self.left: frozenset[int] | None = None
        """Its parameters that no optimizer has stepped since its newest record; None: all."""
        self.lrs: tuple[Any, ...] = ()
        self.lr_groups: tuple[int, ...] = ()
        self.reset()

    def reset(self) -> None:
        """Clear the state after a record, or when its gradients were cleared."""
        if self.losses:
            self.losses = []
        if self.sample:
            self.sample = {}
        self.left = None
        self.norm: Any = None
        self.norm_from = ""
        self.norm_scaled = self.open = self.unscaled = False
        self.clip: Any = None
        self.vector: Any = None
        """Norms of the single gradients that make up ``norm``, not read yet."""
        self.scaler: str | None = None
        self.scale: Any = None
        self.found_inf: Any = None
        self.ask: Callable[[], Any] | None = None
        """Returns ``found_inf`` as long as no step has read it."""

    def settle(self) -> None:
        """Read ``found_inf`` before ``update`` clears it."""
        if self.ask is not None:
            self.found_inf, self.ask = self.ask(), None

    def look(self) -> None:
        """Choose the probes, again after parameter groups were added."""
        optimizer = self.ref()
        if optimizer is None:
            return
        groups = optimizer.param_groups
        count = sum(len(group["params"]) for group in groups)
        if count == self.params_in:
            return
        every = [param for group in groups for param in group["params"]]
        self.params_in = count
        self.params = frozenset(map(id, every))
        self.peers = None
        live = [param for param in every if param.requires_grad and param.is_leaf]
        places = sorted({len(live) * k // PROBES for k in range(PROBES)}) if live else []
        self.probes = tuple(live[place] for place in places)

    def append(self, suffix: str) -> None:
        """Append ``suffix`` to its names from now on, because it is not, or no longer, the primary."""
        self.suffix = suffix
        self.names.clear()
        self.newest_names = (-1, (), ())
        self.reported_source = None  # the source of its norm is reported again, under its new name

    def marks(self) -> Marks:
        """Return the probes' gradients and version counters, to detect whether a backward changes them."""
        grads = [probe.grad for probe in self.probes]
        try:
            return grads, [0 if grad is None else grad._version for grad in grads]
        except RuntimeError:
            return grads, [0 if grad is None else version_of(grad) for grad in grads]

    def is_perturbed(self) -> bool:
        """Return whether the weights changed since the newest backward although nothing has stepped."""
        return bool(self.losses and self.probes) and self.probes[0]._version != self.weights

    def changed(self, marks: Marks | None) -> bool:
        """Return whether any probe's gradient was replaced or changed since ``marks`` (None: no gradient).

        One of inference mode counts as changed, because nothing counts its changes.
        """
        if marks is None:
            grad = self.probes[0].grad
            if grad is not None:
                self.gradient_version, self.gradient_id = version_of(grad), id(grad)
                return True
            self.gradient_version = -1
            return self.probes[-1].grad is not None
        self.note_gradients()
        grads, versions = marks
        for place, probe in enumerate(self.probes):
            grad = probe.grad
            if grad is not grads[place] or (grad is not None and version_of(grad) != versions[place]):
                return True
        return False

    def note_gradients(self) -> None:
        """Record that the gradients are complete, or were unscaled: later changes are made by the script."""
        grad = self.probes[0].grad if self.probes else None
        try:  # without a call, because this is in every step
            self.gradient_version, self.gradient_id = (-1, 0) if grad is None else (grad._version, id(grad))
        except RuntimeError:
            self.gradient_version, self.gradient_id = nan, id(grad)

    def keep_sample(self) -> None:
        """Copy values of the gradients after a backward or unscaling, in the steps that are looked at."""
        if self.norm_timing != BEFORE or not self.looks:
            return
        rarely = bool(self.probes) and not self.probes[0].is_cpu and self.number >= LOOKED_AT
        if not rarely or self.number % LOOK_ON_DEVICE_EVERY == 0:
            self.sample = sample_of(self.probes)

    def look_for_changes(self) -> None:
        """Record whether the script may have changed the gradients since then, so that their norm may be
        clipped.
        """
        if self.norm_timing == BEFORE and (self._is_altered() or has_hooks(self._params())):
            self.norm_timing = UNKNOWN

    def _is_altered(self) -> bool:
        """Return whether the gradients are known to have changed."""
        sample, self.sample = self.sample, {}
        if (sample or self.pending) and differs(
            sample, sample_of(self.probes) if sample else {}, self.pending
        ):
            return True
        grad = self.probes[0].grad if self.probes and self.gradient_version >= 0 else None
        return grad is not None and (
            version_of(grad) != self.gradient_version or id(grad) != self.gradient_id
        )

    def _params(self) -> list[Any]:
        optimizer = self.ref()
        return (
            [] if optimizer is None else [one for group in optimizer.param_groups for one in group["params"]]
        )

    def ungrade(self) -> None:
        """Do not treat the change that an observed clip makes to the gradients as a change by the script."""
        self.gradient_version, self.sample = -1, {}

    def read_rates(self, optimizer: Any, read: Any) -> None:
        """Read the ``lr`` of each parameter group that the next step uses; skip groups without one."""
        groups = optimizer.param_groups
        if len(groups) == 1 and type(rate := groups[0].get("lr")) is float:
            self.lrs, self.lr_groups = (rate,), _FIRST
            return
        rates = [(k, read(group.get("lr"))) for k, group in enumerate(groups[:GROUPS])]
        self.lrs = tuple([rate for _, rate in rates if rate is not None])
        read_groups = tuple([k for k, rate in rates if rate is not None])
        if read_groups != self.lr_groups:  # the same object as long as it is equal: see Ledger.record
            self.lr_groups = read_groups

    def record_names(self, flags: int) -> tuple[str, ...]:
        """Return the names of a record's values, in the order in which ``Ledger.record`` writes them."""
        key = (flags, self.lr_groups)
        names = self.names.get(key)
        if names is None:
            names = self.names[key] = tuple(_names(flags, self.lr_groups, self.suffix))
        return names


def _names(flags: int, groups: tuple[int, ...], suffix: str) -> list[str]:
    names = []
    if flags & HAS_LOSS:
        names += ["loss", "loss_n"]
    if flags & HAS_SUM:
        names.append("loss_sum")
    if flags & HAS_NORM:
        names.append("grad_norm")
    if flags & HAS_SCALE:
        names.append("scale")
    if flags & HAS_FOUND_INF:
        names.append("found_inf")
    names += ["skipped", "stepped"]
    if flags & HAS_TIME:
        names.append("step_time")
    if flags & HAS_DATA:
        names.append("data_time")
    names = [name + suffix for name in names]
    return names + [f"lr{suffix}" + (f"/g{k}" if k else "") for k in groups]
