"""Reading the audit trail: by filter, newest first in pages, or oldest first as NDJSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, QuerySet

from apps.http.pages.limits import EXPORT_ROWS
from apps.keys.audit import limits
from apps.keys.audit.models import AuditEvent
from apps.keys.principal import EVERY_NAMESPACE, Principal


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which events; None asks nothing. `namespace` is empty for those of the whole instance; instants are inclusive."""

    namespace: str | None = None
    action: str | None = None
    outcome: str | None = None
    code: str | None = None
    subject: str | None = None
    key_id: str | None = None
    target: str | None = None
    request_id: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the filters as query conditions."""
        names = {"from_ms": "at_ms__gte", "to_ms": "at_ms__lte"}
        asked = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {names.get(name, name): value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class EventPage:
    """Some events, newest first, and the number to continue below; None at the end."""

    events: list[AuditEvent]
    below: int | None


def visible(reader: Principal) -> QuerySet[AuditEvent]:
    """Return the events of the namespaces `reader` may enter; who may enter every one also sees the instance's."""
    events = AuditEvent.objects.all()
    return events if EVERY_NAMESPACE in reader.namespaces else events.filter(namespace__in=sorted(reader.namespaces))


def page(
    reader: Principal, filters: Filters, *, below: int | None = None, limit: int = limits.DEFAULT_PAGE
) -> EventPage:
    """Return events `reader` may see, newest first."""
    events = visible(reader).filter(**filters.conditions())
    if below is not None:
        events = events.filter(pk__lt=below)
    found = list(events.order_by("-pk")[: limit + 1])
    return EventPage(events=found[:limit], below=found[limit - 1].pk if len(found) > limit else None)


def batches(reader: Principal, filters: Filters) -> Iterator[list[dict[str, Any]]]:
    """Give every event that is there now as JSON, oldest first, in pages, so that nothing is held open."""
    last = AuditEvent.objects.aggregate(last=Max("pk"))["last"] or 0
    chosen = visible(reader).filter(**filters.conditions(), pk__lte=last).order_by("pk")
    after = 0
    while events := list(chosen.filter(pk__gt=after)[:EXPORT_ROWS]):
        yield [shape(event) for event in events]
        after = events[-1].pk


def shape(event: AuditEvent) -> dict[str, Any]:
    """Return the event as JSON, the same from every door; null for what does not apply."""
    texts = ("namespace", "principal_kind", "subject", "key_id", "address", "action", "target", "outcome", "code")
    more = ("reason", "request_id", "before_digest", "after_digest")
    values = {name: getattr(event, name) or None for name in (*texts, *more)}
    return {"id": event.pk, "at_ms": event.at_ms, **values, "count": event.count}
