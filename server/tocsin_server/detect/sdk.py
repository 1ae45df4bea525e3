"""What the file of a rule uses: base classes, severities, causes, remedies, formatting, statistics.

A rule is one file in ``detect/rules/<group>/``: settings, state, a subclass of :class:`Rule` with a title,
and optionally ``CAUSES``. It imports this module as a whole, not its names. See "Add a detection rule" in
CONTRIBUTING.md for the shortest example.
"""

from __future__ import annotations

from tocsin_server.core.models import Evidence, Remedy, RunEvent, Severity
from tocsin_server.detect.diagnosis import remedies
from tocsin_server.detect.diagnosis.case import DiagnosisContext
from tocsin_server.detect.diagnosis.cause import (
    DATA,
    FORWARD,
    GRADIENT,
    MEASUREMENT,
    OPTIMISATION,
    RATE,
    SCALER,
    SYSTEM,
    Cause,
    of_kind,
)
from tocsin_server.detect.interface.blocks import PACE
from tocsin_server.detect.interface.description import RuleSettings, setting
from tocsin_server.detect.interface.formatting import count, grade, number, scale
from tocsin_server.detect.interface.history import median
from tocsin_server.detect.interface.ranks import RankReports, Report
from tocsin_server.detect.interface.rule import (
    CRITICAL,
    FIRING,
    INFO,
    WARNING,
    Episode,
    Fact,
    Rule,
    RuleResult,
    RuleState,
    RunRule,
    WideRule,
)
from tocsin_server.detect.interface.schedules import CYCLIC, STEPPED, is_adam, optimizer_of, scheduler_of
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.detect.interface.similar_runs import SimilarRun
from tocsin_server.detect.interface.view import WIDE, Values, View
from tocsin_server.detect.stats.clipping import Stretch, clip_of
from tocsin_server.detect.stats.finite import all_finite, finite_of, none_finite, not_negative, positive
from tocsin_server.detect.stats.level import Level
from tocsin_server.detect.stats.metric import MAX, MIN, goal_of, is_decibel, is_loss
from tocsin_server.detect.stats.printed import FINE, HIDDEN, ROUNDED, Fall
from tocsin_server.detect.stats.rolling import MAD_TO_SIGMA, RollingMedian, middle
from tocsin_server.detect.stats.trend import Bins, autocorrelations, chance, falls, kendall
from tocsin_server.detect.stats.zero_norms import ZeroStreak, norms_of
