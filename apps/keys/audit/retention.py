"""The one place that removes audit events: by age, oldest first, in small transactions, and leaving an event behind."""

from django.db import transaction
from django.db.models import QuerySet

from apps.keys.audit import limits
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.principal import Principal


class RetentionRefused(Exception):
    """The message is for the operator who asked."""


def prune(*, older_than_s: int, by: Principal, now_ms: int) -> int:
    """Remove the events older than `older_than_s`, and return how many. Raises RetentionRefused below one day."""
    if older_than_s < limits.MIN_KEPT_S:
        raise RetentionRefused("audit events are kept for at least one day")
    cut_ms = now_ms - older_than_s * 1000
    removed = 0
    # A plain queryset: the model's own refuses to delete.
    events: QuerySet[AuditEvent] = QuerySet(model=AuditEvent)
    while True:
        with transaction.atomic():
            oldest = list(
                events.filter(at_ms__lt=cut_ms).order_by("at_ms").values_list("pk", flat=True)[: limits.PRUNE_ROWS]
            )
            if oldest:
                removed += events.filter(pk__in=oldest).delete()[0]
        if len(oldest) < limits.PRUNE_ROWS:
            break
    if removed:
        with transaction.atomic():
            record(
                by, "audit.pruned", target=f"events before {cut_ms}", reason=f"{removed} events removed", at_ms=now_ms
            )
    return removed
