"""What can happen to triggers: one function per operation, each one transaction.

Nothing here knows HTTP, the console or commands; all of them call these functions. `now_ms` always comes from the
caller (`apps.workloads.clock.now_ms()`).
"""

from apps.triggers.evaluation.batches import TriggeredWorkload
from apps.triggers.evaluation.pins import needed_from, standing_between
from apps.triggers.services.aside import quarantined, retry, skip
from apps.triggers.services.defining import Defined, define, revise
from apps.triggers.services.evaluating import evaluate_namespace
from apps.triggers.services.explaining import explain
from apps.triggers.services.operating import archive, disable, enable, pause, rebase, resume, resume_due
from apps.triggers.services.reconciling import Apart, Unseen, look, namespaces_apart, reconcile
from apps.triggers.services.replays import cancel as cancel_replay
from apps.triggers.services.replays import one as find_replay
from apps.triggers.services.replays import replay, replay_document, replays
from apps.triggers.services.showing import (
    behind_ms,
    document,
    find,
    head_of,
    lag,
    list_triggers,
    quarantine_document,
    result_document,
    revision_document,
    revisions,
    source_of,
    standing_of,
    status,
)
from apps.triggers.services.trying import dry_run

__all__ = [
    "Apart",
    "Defined",
    "TriggeredWorkload",
    "Unseen",
    "archive",
    "behind_ms",
    "cancel_replay",
    "define",
    "disable",
    "document",
    "dry_run",
    "enable",
    "evaluate_namespace",
    "explain",
    "find",
    "find_replay",
    "head_of",
    "lag",
    "list_triggers",
    "look",
    "namespaces_apart",
    "needed_from",
    "pause",
    "quarantine_document",
    "quarantined",
    "rebase",
    "reconcile",
    "replay",
    "replay_document",
    "replays",
    "result_document",
    "resume",
    "resume_due",
    "retry",
    "revise",
    "revision_document",
    "revisions",
    "skip",
    "source_of",
    "standing_between",
    "standing_of",
    "status",
]
