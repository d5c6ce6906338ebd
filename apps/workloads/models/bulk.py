"""Actions of a person on many workloads: what was chosen, row by row, and what became of each row.

The rows are chosen once, before anything is done, so that what fails again is not taken again.
"""

from django.db import models
from django.db.models import F, Q

from apps.workloads import limits
from apps.workloads.fields import JSONText
from apps.workloads.states import BulkAction, BulkOutcome, BulkState


class BulkOrder(models.Model):
    """One action on a frozen set of workloads.

    CHOOSING while its rows are being written, DRAFT until somebody starts it, then STARTED: from there on its own
    workload (`workload_id`) says how it stands. `stopped_at_ms` ends it where it stands. `selection` is what was asked
    for, for people; `more` says that not everything that matches was taken. It acts for `person_id`.
    """

    bulk_id = models.CharField(max_length=40, unique=True)
    namespace = models.CharField(max_length=63)
    action = models.CharField(max_length=8, choices=[(each.value, each.value) for each in BulkAction])
    state = models.CharField(max_length=8, choices=[(each.value, each.value) for each in BulkState])
    selection = JSONText()
    total = models.IntegerField(default=0)
    more = models.BooleanField(default=False)
    reason = models.CharField(max_length=limits.MAX_REASON_CHARS, blank=True, default="")
    person_id = models.BigIntegerField()
    author = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    workload_id = models.CharField(max_length=40, blank=True, default="")
    created_at_ms = models.BigIntegerField()
    started_at_ms = models.BigIntegerField(null=True)
    stopped_at_ms = models.BigIntegerField(null=True)
    stopped_by = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(action__in=list(BulkAction)), name="bulk_action_is_known"),
            models.CheckConstraint(condition=Q(state__in=list(BulkState)), name="bulk_state_is_known"),
            models.CheckConstraint(
                condition=Q(state=BulkState.STARTED, started_at_ms__isnull=False) & ~Q(workload_id="")
                | ~Q(state=BulkState.STARTED) & Q(started_at_ms__isnull=True, stopped_at_ms__isnull=True),
                name="bulk_has_work_exactly_when_started",
            ),
            models.CheckConstraint(condition=Q(total__gte=0), name="bulk_total_not_negative"),
        ]
        indexes = [models.Index(F("namespace"), F("id").desc(), name="bulk_newest_first")]

    def __str__(self) -> str:
        return f"{self.bulk_id}: {self.action} {self.total}"


class BulkItem(models.Model):
    """One workload of the set, as it stood when it was chosen, and what became of it: `outcome` is written once."""

    order = models.ForeignKey(BulkOrder, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.IntegerField()
    workload_id = models.CharField(max_length=40)
    seen_state = models.CharField(max_length=24)
    seen_length = models.IntegerField()
    outcome = models.CharField(
        max_length=8, choices=[(each.value, each.value) for each in BulkOutcome], default=BulkOutcome.PENDING
    )
    message = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")
    at_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "position"], name="bulk_item_position_unique"),
            models.UniqueConstraint(fields=["order", "workload_id"], name="bulk_item_once_per_order"),
            models.CheckConstraint(condition=Q(outcome__in=list(BulkOutcome)), name="bulk_outcome_is_known"),
            models.CheckConstraint(
                condition=Q(outcome=BulkOutcome.PENDING, at_ms__isnull=True)
                | ~Q(outcome=BulkOutcome.PENDING) & Q(at_ms__isnull=False),
                name="bulk_item_dated_exactly_when_done",
            ),
        ]
        indexes = [models.Index(fields=["order", "outcome", "position"], name="bulk_item_by_outcome")]

    def __str__(self) -> str:
        return f"{self.workload_id}: {self.outcome}"
