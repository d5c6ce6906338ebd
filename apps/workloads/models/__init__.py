"""Durable work at rest, by subject: the work itself (`work.py`), decisions on it (`approving.py`), the workers that
registered (`workers.py`), schedules (`schedules.py`), namespaces whose claims are stopped (`holds.py`), actions on many
workloads (`bulk.py`), words of stale workers (`refused.py`).
"""

from apps.workloads.models.approving import Decision
from apps.workloads.models.bulk import BulkItem, BulkOrder
from apps.workloads.models.holds import NamespaceHold
from apps.workloads.models.refused import RefusedWord
from apps.workloads.models.schedules import Schedule
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
from apps.workloads.models.workers import RegisteredWorker

__all__ = [
    "Attempt",
    "BulkItem",
    "BulkOrder",
    "Checkpoint",
    "Decision",
    "Dependency",
    "Event",
    "Lane",
    "NamespaceHold",
    "RefusedWord",
    "RegisteredWorker",
    "Request",
    "Result",
    "Schedule",
    "Workload",
]
