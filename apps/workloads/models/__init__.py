"""Durable work at rest, by subject: the work itself (`work.py`)."""

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
    "Dependency",
    "Event",
    "Lane",
    "Request",
    "Result",
    "Workload",
]
