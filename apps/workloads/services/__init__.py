"""What can happen to durable work: one function per operation, each one transaction.

Nothing here knows HTTP, the console or commands; all of them call these functions. `now_ms` always comes from the
caller (`apps.workloads.clock.now_ms()`).
"""

from apps.workloads.commands import (
    Admission,
    ApprovalPolicy,
    Claim,
    ClaimById,
    ClaimNext,
    Completion,
    CreateWorkload,
    DependsOn,
    ExecutionContext,
    Failure,
    Fence,
    Heartbeat,
    Report,
    RetryPolicy,
    Subject,
    SweepReport,
    Timeouts,
)
from apps.workloads.services.admission import Prepared, admit, admit_many, prepare
from apps.workloads.services.approving import decide_approval
from apps.workloads.services.authority import check_touches
from apps.workloads.services.checkpointing import checkpoint, context
from apps.workloads.services.claiming import claim, claim_next, ready_definitions
from apps.workloads.services.control import cancel, retry
from apps.workloads.services.holding import hand_back, heartbeat, start
from apps.workloads.services.registry import detect_silence
from apps.workloads.services.reporting import complete, complete_many, confirm_cancel, fail, fail_many
from apps.workloads.services.resubmitting import resubmit
from apps.workloads.services.sweeping import sweep

__all__ = [
    "Admission",
    "ApprovalPolicy",
    "Claim",
    "ClaimById",
    "ClaimNext",
    "Completion",
    "CreateWorkload",
    "DependsOn",
    "ExecutionContext",
    "Failure",
    "Fence",
    "Heartbeat",
    "Prepared",
    "Report",
    "RetryPolicy",
    "Subject",
    "SweepReport",
    "Timeouts",
    "admit",
    "admit_many",
    "cancel",
    "check_touches",
    "checkpoint",
    "claim",
    "claim_next",
    "complete",
    "complete_many",
    "confirm_cancel",
    "context",
    "decide_approval",
    "detect_silence",
    "fail",
    "fail_many",
    "hand_back",
    "heartbeat",
    "prepare",
    "ready_definitions",
    "resubmit",
    "retry",
    "start",
    "sweep",
]
