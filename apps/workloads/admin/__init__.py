"""Work in the console: workloads, actions on many of them, workers, schedules, and what the fence refused.

Thin: what may happen is the state machine's (`machine.py`), what happens is the services'. Nothing here saves a row.
"""

from apps.workloads.admin.bulk import BulkOrderAdmin
from apps.workloads.admin.fence import RefusedWordAdmin
from apps.workloads.admin.schedules import ScheduleAdmin
from apps.workloads.admin.work import WorkloadAdmin
from apps.workloads.admin.workers import RegisteredWorkerAdmin

__all__ = ["BulkOrderAdmin", "RefusedWordAdmin", "RegisteredWorkerAdmin", "ScheduleAdmin", "WorkloadAdmin"]
