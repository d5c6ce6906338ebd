"""Workers that have registered: who they are, what they may be given, and whether they live.

A worker may claim without registering; one that has registered is held to its capabilities, kinds, capacity and
lifecycle by the claim itself. What it holds is never kept here: it is counted from the work.
"""

from django.db import models
from django.db.models import F, Q

from apps.workloads import limits
from apps.workloads.fields import JSONText
from apps.workloads.lifecycle import LIVING, Health, Lifecycle


class RegisteredWorker(models.Model):
    """One worker of a namespace, in its present incarnation: a restart under the same name is another one."""

    namespace = models.CharField(max_length=63)
    worker_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    incarnation_id = models.CharField(max_length=40, unique=True)
    lifecycle = models.CharField(max_length=12, choices=[(each.value, each.value) for each in Lifecycle])
    health = models.CharField(max_length=12, choices=[(each.value, each.value) for each in Health])
    declared_capabilities = JSONText()
    granted_capabilities = JSONText()
    workload_kinds = JSONText()
    concurrency = models.IntegerField()
    grant_id = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")
    registered_by = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    registered_at_ms = models.BigIntegerField()
    seen_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["namespace", "worker_id"], name="worker_once_in_a_namespace"),
            models.CheckConstraint(condition=Q(lifecycle__in=list(Lifecycle)), name="worker_lifecycle_is_known"),
            models.CheckConstraint(condition=Q(health__in=list(Health)), name="worker_health_is_known"),
            models.CheckConstraint(
                condition=Q(concurrency__gte=1, concurrency__lte=limits.MAX_WORKER_CONCURRENCY),
                name="worker_capacity_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(seen_at_ms__gte=F("registered_at_ms")), name="worker_seen_since_registered"
            ),
            models.CheckConstraint(condition=~Q(worker_id="") & ~Q(incarnation_id=""), name="worker_is_named"),
        ]
        indexes = [
            models.Index(fields=["seen_at_ms"], condition=Q(lifecycle__in=LIVING), name="worker_living_by_last_seen")
        ]

    def __str__(self) -> str:
        return f"{self.worker_id} {self.lifecycle}"
