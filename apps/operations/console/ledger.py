"""The idempotency ledger in the console: what a repeated request would find, of transactions and of work."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse

from apps.operations.console.store_pages import answer, enter, soon
from apps.state.stores import store
from apps.workloads.models import Request, Workload
from feltdb_engine import CommitResult, Operation, Store
from feltdb_engine.errors import InvalidKey
from feltdb_engine.model import Cursor

PAGE_ROWS = 25
LOOKED_AT = 500
"""Newest operations looked through for transactions with an id."""

WORK = "workloads.view_workload"


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Look up one key, or show the newest ones of both kinds."""
    namespace = enter(request)
    key = request.GET.get("key", "").strip().replace("\0", "")
    may_see_work = request.user.has_perm(WORK)

    def read() -> dict[str, Any]:
        opened = store(namespace)
        return {
            "outcome": _outcome(opened, key),
            "remembered": opened.stats().transaction_ids,
            "transactions": () if key else _newest(opened),
        }

    asked = _asked(namespace, key) if may_see_work else []
    shared = {"key": key, "asked": asked, "may_see_work": may_see_work}
    return answer(site, request, "console/ledger.html", "Idempotency", read, **shared)


def _asked(namespace: str, key: str) -> list[Request]:
    """Return requests for work, newest first: those with exactly this key, or the newest of all."""
    rows = Request.objects.filter(namespace=namespace).defer("input").select_related("workload")
    if key:
        rows = rows.filter(idempotency_key=key)
    else:
        newest = Workload.objects.filter(namespace=namespace).order_by("-id").values_list("pk", flat=True)
        rows = rows.filter(pk__in=list(newest[:PAGE_ROWS]))
    return list(rows.order_by("-workload_id")[:PAGE_ROWS])


def _outcome(opened: Store, key: str) -> CommitResult | None:
    try:
        return opened.transaction(key) if key else None
    except InvalidKey:
        return None


def _newest(opened: Store) -> list[Operation]:
    """Return the first operation of each of the newest transactions that have an id."""
    head = opened.head()
    begin = max(opened.start().sequence, head.sequence - LOOKED_AT)
    page = opened.changes(Cursor(instance_id=head.instance_id, sequence=begin), limit=LOOKED_AT, deadline=soon())
    found: dict[str, Operation] = {}
    for each in page.operations:
        if each.transaction_id is not None:
            found.setdefault(each.transaction_id, each)
    return list(found.values())[::-1][:PAGE_ROWS]
