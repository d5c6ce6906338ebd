"""Standing orders for work at certain times. When they are due: `cron.py`; what happens: `services/scheduling.py`."""

from django.db import models
from django.db.models import Q

from apps.workloads import limits
from apps.workloads.fields import JSONText
from apps.workloads.states import MissedRuns, ScheduleState


class Schedule(models.Model):
    """One standing order.

    `work` holds the members of the request for work in their JSON form. `next_at_ms` is the next due time, null while
    it stands still. `revision` grows with every change by somebody; work is made under the grant of whoever made the
    last. `failure` says why the last due time made no work.
    """

    namespace = models.CharField(max_length=63)
    schedule_id = models.CharField(max_length=limits.MAX_SCHEDULE_ID_CHARS)
    expression = models.CharField(max_length=limits.MAX_EXPRESSION_CHARS)
    time_zone = models.CharField(max_length=limits.MAX_NAME_CHARS)
    missed = models.CharField(max_length=8, choices=[(choice.value, choice.value) for choice in MissedRuns])
    definition_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    work = JSONText()

    requester_kind = models.CharField(max_length=16)
    requester_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    grant_id = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")

    state = models.CharField(max_length=8, choices=[(state.value, state.value) for state in ScheduleState])
    next_at_ms = models.BigIntegerField(null=True)
    last_at_ms = models.BigIntegerField(null=True)
    last_workload_id = models.CharField(max_length=40, blank=True, default="")
    failure = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")
    revision = models.IntegerField(default=1)
    created_at_ms = models.BigIntegerField()
    updated_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["namespace", "schedule_id"], name="schedule_id_unique_in_namespace"),
            models.CheckConstraint(condition=Q(state__in=list(ScheduleState)), name="schedule_state_is_known"),
            models.CheckConstraint(condition=Q(missed__in=list(MissedRuns)), name="schedule_missed_is_known"),
            models.CheckConstraint(
                condition=Q(state=ScheduleState.ACTIVE) | Q(next_at_ms__isnull=True), name="schedule_due_only_if_active"
            ),
            models.CheckConstraint(
                condition=~Q(schedule_id="") & ~Q(definition_id="") & ~Q(expression=""), name="schedule_is_named"
            ),
        ]
        indexes = [
            models.Index(fields=["next_at_ms"], condition=Q(next_at_ms__isnull=False), name="schedule_due"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id}: {self.expression} {self.time_zone}"
