"""Read runs, metrics, alerts and incidents back from a server: ``tocsin.Api`` and ``tocsin.AsyncApi``.

Nothing here is imported by a training that only reports.
"""

from .answers import (
    Alert,
    Attempt,
    Checkpoint,
    Checkpoints,
    ConsoleLine,
    Diagnosis,
    Event,
    Evidence,
    Incident,
    Outcome,
    Reason,
    Remedy,
    Run,
    RunDetail,
    Series,
)
from .api import Api, Pages, Records
from .async_api import AsyncApi, AsyncPages, AsyncRecords
from .errors import ApiError, NotFoundError, RejectedError, TokenError, UnreachableError
from .table import Column, Table

__all__ = [
    "Alert",
    "Api",
    "ApiError",
    "AsyncApi",
    "AsyncPages",
    "AsyncRecords",
    "Attempt",
    "Checkpoint",
    "Checkpoints",
    "Column",
    "ConsoleLine",
    "Diagnosis",
    "Event",
    "Evidence",
    "Incident",
    "NotFoundError",
    "Outcome",
    "Pages",
    "Reason",
    "Records",
    "RejectedError",
    "Remedy",
    "Run",
    "RunDetail",
    "Series",
    "Table",
    "TokenError",
    "UnreachableError",
]
