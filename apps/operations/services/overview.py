"""What an operator should know first, of one namespace: work, dead letters, triggers, storage. All bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, Value, When

from apps.operations.services.health import Observation, observe
from apps.triggers import services as triggers
from apps.triggers.models import NamespacePosition, Trigger, TriggerQuarantine
from apps.workloads import overview as work
from apps.workloads.models import Attempt
from apps.workloads.states import AttemptStatus, State
from feltdb_engine.model import Cursor

MAX_TRIGGERS_SHOWN = 10
MAX_BLOCKED_SHOWN = 5
MAX_FAILURES_SHOWN = 8
MAX_ATTEMPTS_READ = 500
"""Newest attempts looked through for failures: a page is no search."""

_FAILED = (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT, AttemptStatus.WORKER_LOST)


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerStanding:
    """A trigger and how many operations it has yet to look at; None where that is unknown."""

    trigger: Trigger
    behind: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """One namespace at one moment. Counts stop at the cap plus one."""

    now_ms: int
    counts: dict[State, int]
    waiting: work.Waiting | None
    triggers: Sequence[TriggerStanding]
    more_triggers: bool
    blocked: Sequence[Trigger]
    quarantined: int
    mismatch: str
    failures: Sequence[Attempt]
    head: Cursor | None
    health: Observation

    @property
    def waited_ms(self) -> int:
        """Return how long the oldest work that could run has waited."""
        return 0 if self.waiting is None else self.now_ms - self.waiting.eligible_at_ms

    @property
    def held(self) -> int:
        """Return how much work a worker holds."""
        states = (State.CLAIMED, State.RUNNING, State.CHECKPOINTED, State.CANCELLATION_REQUESTED)
        return sum(self.counts.get(state, 0) for state in states)

    @property
    def anything(self) -> bool:
        """Tell whether there is any work or trigger at all."""
        return bool(self.triggers) or any(self.counts.values())


def overview(namespace: str, *, now_ms: int, cap: int) -> Overview:
    """Read everything for one namespace. A store that cannot be read leaves its figures unknown."""
    head = triggers.head_of(namespace)
    rows = _triggers(namespace)
    quarantine = TriggerQuarantine.objects.filter(namespace=namespace, resolved_at_ms__isnull=True)
    position = NamespacePosition.objects.filter(pk=namespace).first()
    return Overview(
        now_ms=now_ms,
        counts=work.count_by_state(namespace, cap=cap),
        waiting=work.longest_waiting(namespace, now_ms=now_ms),
        triggers=[TriggerStanding(trigger=row, behind=triggers.lag(row, head)) for row in rows[:MAX_TRIGGERS_SHOWN]],
        more_triggers=len(rows) > MAX_TRIGGERS_SHOWN,
        blocked=[row for row in rows if row.state == Trigger.State.BLOCKED][:MAX_BLOCKED_SHOWN],
        quarantined=quarantine[: cap + 1].count(),
        mismatch=position.mismatch if position is not None and position.mismatch_code else "",
        failures=recent_failures(namespace),
        head=head,
        health=observe(with_work=False),
    )


def _triggers(namespace: str) -> list[Trigger]:
    """Return the first triggers and one more; those that stand still come first, however many others there are."""
    rows = Trigger.objects.filter(namespace=namespace).exclude(state=Trigger.State.ARCHIVED).select_related("cursor")
    stands = Case(When(state=Trigger.State.BLOCKED, then=Value(0)), default=Value(1))
    return list(rows.order_by(stands, "trigger_id")[: MAX_TRIGGERS_SHOWN + 1])


def recent_failures(namespace: str) -> list[Attempt]:
    """Return the newest failed attempts among the newest MAX_ATTEMPTS_READ of the whole instance."""
    newest = Attempt.objects.order_by("-id").values("pk")[:MAX_ATTEMPTS_READ]
    failed = Attempt.objects.filter(pk__in=newest, namespace=namespace, status__in=_FAILED).select_related("workload")
    return list(failed.order_by("-id")[:MAX_FAILURES_SHOWN])
