"""The feed of changes in the console: the newest, one change with cause and effects, one transaction."""

from collections.abc import Sequence
from typing import Any

from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse

from apps.http.pages.diff import differences
from apps.operations.console.store_pages import answer, enter, number, soon
from apps.operations.services import provenance
from apps.state.stores import store
from apps.workloads.models import Request, Workload
from feltdb_engine import Operation, Store
from feltdb_engine.errors import CursorAhead, InvalidQuery
from feltdb_engine.model import Cursor

PAGE_OPERATIONS = 50
FILTERED_OPERATIONS = 1_000
"""Operations looked through for one page where only one collection is asked for."""

MAX_OPERATIONS = 200
"""Operations of one transaction shown at a time."""

MAX_ATTEMPTS = 200


def feed(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show changes, newest first, up to the sequence `upto`, of one collection where asked."""
    namespace = enter(request)

    def read() -> dict[str, Any]:
        opened = store(namespace)
        head, floor = opened.head(), opened.start().sequence
        upto, collection = number(request, "upto"), request.GET.get("collection", "").strip()
        if upto is not None and upto > head.sequence:
            raise CursorAhead("This sequence lies beyond the newest change.", head=head.sequence)
        upto = head.sequence if upto is None else upto
        operations, older = _newest(opened, head, floor, upto, collection)
        return {
            "operations": operations,
            "older": older,
            "collection": collection,
            "head": head,
            "floor": floor,
            "newest": upto == head.sequence,
            "api_url": request.build_absolute_uri("/v1/changes"),
        }

    return answer(site, request, "console/changes.html", "Changes", read)


def _newest(
    opened: Store, head: Cursor, floor: int, upto: int, collection: str
) -> tuple[Sequence[Operation], int | None]:
    """Return operations up to a sequence, newest first, and the sequence that the next older page begins at."""
    size = FILTERED_OPERATIONS if collection else PAGE_OPERATIONS
    begin = max(floor, upto - size)
    if begin >= upto:
        return [], None
    page = opened.changes(
        Cursor(instance_id=head.instance_id, sequence=begin),
        limit=size,
        collections=[collection] if collection else None,
        deadline=soon(),
    )
    found = [each for each in page.operations if each.sequence <= upto][::-1]
    shown = found[:PAGE_OPERATIONS]
    older = shown[-1].sequence - 1 if len(found) > PAGE_OPERATIONS else begin
    return shown, older if older > floor else None


def change(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show one change: its value, what it changed, who made it, what came of it."""
    namespace = enter(request)
    title = f"Change {request.GET.get('sequence', '')}"

    def read() -> dict[str, Any]:
        opened = store(namespace)
        sequence = number(request, "sequence")
        if sequence is None:
            raise Http404("a change is named by its sequence")
        operations = opened.transaction_at(sequence, deadline=soon())
        one = next(each for each in operations if each.sequence == sequence)
        before = _before(opened, one)
        cause = provenance.cause_of(namespace, one)
        return {
            "one": one,
            "transaction_size": len(operations),
            "before": before,
            "differences": None if before is None or one.kind != "update" else differences(before.value, one.value),
            "cause": cause,
            "cause_source": _source_of(cause),
            "effects": provenance.effects_of(namespace, one),
            "head": opened.head(),
            "api_url": request.build_absolute_uri(f"/v1/changes?after={one.instance_id}-{sequence - 1}&limit=1"),
        }

    return answer(site, request, "console/change.html", title, read)


def _before(opened: Store, one: Operation) -> Operation | None:
    """Return the operation on the same record before this one, None where there was none or it is gone."""
    found = opened.history(one.collection, one.id, 2, from_sequence=one.sequence, deadline=soon()).operations
    return found[1] if len(found) > 1 else None


def _source_of(work: Workload | None) -> provenance.Source | None:
    if work is None:
        return None
    key = Request.objects.filter(pk=work.pk).values_list("idempotency_key", flat=True).first()
    return provenance.source_of(key or "")


def transaction(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show one transaction, by its id or by any sequence of it: outcome, who, every change it made."""
    namespace = enter(request)
    named = request.GET.get("id", "")
    title = "Transaction"

    def read() -> dict[str, Any]:
        opened = store(namespace)
        sequence = number(request, "sequence")
        outcome = opened.transaction(named) if named else None
        if sequence is None and outcome is None:
            raise Http404("there is no such transaction, or its id is remembered no more")
        if sequence is None and outcome is not None:
            sequence = outcome.base_revision + 1
        empty = outcome is not None and not outcome.sequences
        operations = () if empty or sequence is None else opened.transaction_at(sequence, deadline=soon())
        first = operations[0] if operations else None
        if outcome is None and first is not None and first.transaction_id is not None:
            outcome = opened.transaction(first.transaction_id)
        begin = max(0, (number(request, "from") or 1) - 1)
        return {
            "name": named or (first.transaction_id if first else None),
            "outcome": outcome,
            "first": first,
            "last": operations[-1] if operations else None,
            "operations": operations[begin : begin + MAX_OPERATIONS],
            "count": len(operations),
            "next_from": begin + MAX_OPERATIONS + 1 if len(operations) > begin + MAX_OPERATIONS else None,
        }

    return answer(site, request, "console/transaction.html", title, read)


def work(site: AdminSite, request: HttpRequest, workload_id: str) -> HttpResponse:
    """Show where a work came from and what it wrote."""
    namespace = enter(request)
    found = Workload.objects.filter(namespace=namespace, workload_id=workload_id).select_related("request").first()
    if found is None or not request.user.has_perm("workloads.view_workload"):
        raise Http404("there is no such work in this namespace")

    def read() -> dict[str, Any]:
        opened = store(namespace)
        source = provenance.source_of(found.request.idempotency_key)
        attempts = list(found.attempts.order_by("-number")[:MAX_ATTEMPTS])
        context = site.each_context(request)
        written = provenance.written_by(
            opened,
            workload_id,
            attempts,
            after=number(request, "after"),
            now_ms=context["now_ms"],
            until=soon(),
        )
        return {
            "work": found,
            "source": source,
            "source_change": _kept(opened, source),
            "fired": provenance.trigger_of(found),
            "written": written,
        }

    return answer(site, request, "console/work_provenance.html", workload_id, read)


def _kept(opened: Store, source: provenance.Source | None) -> Operation | None:
    """Return the change that made a work, None where history has let it go, or where it is another timeline's."""
    if source is None:
        return None
    if not opened.start().sequence < source.sequence <= opened.head().sequence:
        return None
    try:
        operations = opened.transaction_at(source.sequence, deadline=soon())
    except InvalidQuery:
        return None
    one = next(each for each in operations if each.sequence == source.sequence)
    return one if one.instance_id == source.instance_id else None
