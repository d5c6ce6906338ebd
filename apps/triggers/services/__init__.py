"""What can happen to triggers: one function per operation, each one transaction.

Nothing here knows HTTP, the console or commands; all of them call these functions. `now_ms` always comes from the
caller (`apps.workloads.clock.now_ms()`).
"""

from apps.triggers.evaluation.batches import TriggeredWorkload
from apps.triggers.services.defining import Defined, define, revise
from apps.triggers.services.evaluating import evaluate_namespace
from apps.triggers.services.operating import archive, disable, enable, pause, resume, resume_due
from apps.triggers.services.showing import (
    behind_ms,
    document,
    find,
    head_of,
    lag,
    list_triggers,
    quarantine_document,
    quarantined,
    revision_document,
    revisions,
    status,
)

__all__ = [
    "Defined",
    "TriggeredWorkload",
    "archive",
    "behind_ms",
    "define",
    "disable",
    "document",
    "enable",
    "evaluate_namespace",
    "find",
    "head_of",
    "lag",
    "list_triggers",
    "pause",
    "quarantine_document",
    "quarantined",
    "resume",
    "resume_due",
    "revise",
    "revision_document",
    "revisions",
    "status",
]
