"""Who decided on work that needed approval. Whether it is needed and how it stands: `Workload.approval`."""

from django.db import models
from django.db.models import Q

from apps.workloads import limits
from apps.workloads.models.work import Workload
from apps.workloads.states import APPROVER_KINDS, DECIDED


class Decision(models.Model):
    """The one decision on a workload: never replaced, and standing across its attempts."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, primary_key=True, related_name="decision")
    namespace = models.CharField(max_length=63)
    outcome = models.CharField(max_length=12, choices=[(outcome.value, outcome.value) for outcome in DECIDED])
    decider_kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in APPROVER_KINDS])
    decider_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    decided_at_ms = models.BigIntegerField()
    reason = models.CharField(max_length=limits.MAX_DECISION_REASON_CHARS, blank=True, default="")
    input_hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(outcome__in=DECIDED), name="decision_outcome_is_known"),
            models.CheckConstraint(condition=Q(decider_kind__in=APPROVER_KINDS), name="decision_by_who_may_decide"),
            models.CheckConstraint(
                condition=Q(outcome="approved") | ~Q(reason=""), name="decision_to_reject_has_a_reason"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.outcome} by {self.decider_kind} {self.decider_id}"
