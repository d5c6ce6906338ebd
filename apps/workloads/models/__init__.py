"""Durable work at rest, by subject: the work itself (`work.py`), decisions on it (`approving.py`)."""

from apps.workloads.models.approving import Decision
from apps.workloads.models.work import (
    Attempt,
    Checkpoint,
    Dependency,
    Event,
    Lane,
    Request,
    Result,
    Workload,
)

__all__ = [
    "Attempt",
    "Checkpoint",
    "Decision",
    "Dependency",
    "Event",
    "Lane",
    "Request",
    "Result",
    "Workload",
]
