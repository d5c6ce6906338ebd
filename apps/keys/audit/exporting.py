"""The audit trail as a file (`apps/http/pages/exporting.py`); that it was made is in the trail itself."""

from collections.abc import Iterator
from typing import Any

from apps.http.pages import exporting
from apps.http.pages.display import iso_instant
from apps.keys.audit import reading
from apps.keys.audit.services import record
from apps.keys.principal import Principal

_COLUMNS = (
    *("id", "at", "at_ms", "namespace", "principal_kind", "subject", "key_id", "address", "action", "target"),
    *("outcome", "code", "reason", "request_id", "before_digest", "after_digest", "count"),
)


def begin(reader: Principal, filters: reading.Filters, *, form: str, target: str) -> exporting.Export:
    """Begin an export of what `reader` may see, oldest first, and record that it was made.

    Raises SERVICE_OVERLOADED while as many exports are under way as may be.
    """
    return exporting.begin(
        _dated(reader, filters) if form == "csv" else reading.batches(reader, filters),
        _COLUMNS,
        form=form,
        noted=lambda: record(reader, "audit.exported", target=target, namespace=filters.namespace or ""),
    )


def _dated(reader: Principal, filters: reading.Filters) -> Iterator[list[dict[str, Any]]]:
    for events in reading.batches(reader, filters):
        yield [{**event, "at": iso_instant(event["at_ms"])} for event in events]
