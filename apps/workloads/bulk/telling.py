"""What became of each row of a bulk order, as a file (`apps/http/pages/exporting.py`)."""

from collections.abc import Iterator
from typing import Any

from apps.http.pages import exporting
from apps.http.pages.display import iso_instant
from apps.http.pages.limits import EXPORT_ROWS
from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.workloads.models import BulkItem, BulkOrder, Workload

_COLUMNS = (
    *("position", "workload_id", "state_when_chosen", "history_when_chosen", "outcome", "message", "at", "at_ms"),
    "state_now",
)


def begin(order: BulkOrder, *, outcome: str = "", form: str, by: Principal) -> exporting.Export:
    """Begin an export of the order's rows in their order, those of one outcome or all, and record that it was made.

    Raises SERVICE_OVERLOADED while as many exports are under way as may be.
    """
    after = {"outcome": outcome or "all", "form": form}
    return exporting.begin(
        _rows(order, outcome),
        _COLUMNS,
        form=form,
        noted=lambda: record(by, "bulk.exported", target=order.bulk_id, namespace=order.namespace, after=after),
    )


def _rows(order: BulkOrder, outcome: str) -> Iterator[list[dict[str, Any]]]:
    items = order.items.order_by("position")
    if outcome:
        items = items.filter(outcome=outcome)
    after = 0
    while page := list(items.filter(position__gt=after)[:EXPORT_ROWS]):
        ids = [item.workload_id for item in page]
        now = dict(Workload.objects.filter(workload_id__in=ids).values_list("workload_id", "state"))
        yield [_row(item, now.get(item.workload_id)) for item in page]
        after = page[-1].position


def _row(item: BulkItem, state_now: str | None) -> dict[str, Any]:
    """Return the row as JSON; null for what does not apply, the state of now also for work that was archived."""
    told = (
        *(item.position, item.workload_id, item.seen_state, item.seen_length, item.outcome, item.message or None),
        *(None if item.at_ms is None else iso_instant(item.at_ms), item.at_ms, state_now),
    )
    return dict(zip(_COLUMNS, told, strict=True))
