"""Compaction in the console: the policy, what it would let go now, running it, and how the last runs ended."""

import json
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.console import acting
from apps.operations.console.store_pages import answer, enter
from apps.operations.models import UpkeepRun
from apps.operations.services import compacting, in_background, upkeep
from apps.operations.services.compacting import CompactionRefused
from apps.state.stores import store
from feltdb_engine import EngineError
from feltdb_engine.errors import CompactionRunning

MAX_RUNS = 20
MAX_REASON_CHARS = 512


def page(site: AdminSite, request: HttpRequest, *, refusal: str = "", status: int = 200) -> HttpResponse:
    """Show the policy, what would go, what holds the rest, and the last runs."""
    namespace = enter(request)

    def read() -> dict[str, Any]:
        opened = store(namespace)
        try:
            seen, held = compacting.preview(namespace), ""
        except CompactionRefused as refused:
            seen, held = None, str(refused)
        except CompactionRunning:
            seen, held = None, "A compaction of this store is at work; what it lets go is told when it has ended."
        return {
            "seen": seen,
            "held": held,
            "would_go": 0 if seen is None else seen.floor - seen.floor_before,
            "pins": opened.pins(),
            "head": opened.head().sequence,
        }

    shared: dict[str, Any] = {
        "runs": [_told(row) for row in upkeep.newest(UpkeepRun.Kind.COMPACTION, limit=MAX_RUNS)],
        "days": settings.HISTORY_DAYS,
        "mib": settings.HISTORY_MIB,
        "every_minutes": settings.COMPACT_EVERY_MINUTES,
        "may_act": request.user.is_superuser,
        "not_done": refusal,
    }
    shown = answer(site, request, "console/compaction.html", "Compaction", read, **shared)
    shown.status_code = status if status != 200 else shown.status_code
    return shown


def run(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Begin to compact the store of the page's namespace."""
    if not request.user.is_superuser:
        raise PermissionDenied
    namespace = enter(request)
    if request.method != "POST":
        return HttpResponseRedirect(reverse("admin:compaction"))
    try:
        in_background.compact(namespace, by=acting(request), reason=request.POST.get("reason", "")[:MAX_REASON_CHARS])
    except (CompactionRefused, ApiError, EngineError) as refused:
        return page(site, request, refusal=getattr(refused, "message", str(refused)), status=409)
    messages.success(request, f"The compaction of {namespace} has begun; this page tells when it has ended.")
    return HttpResponseRedirect(reverse("admin:compaction"))


def _told(row: UpkeepRun) -> dict[str, Any]:
    report = json.loads(row.report) if row.report else {}
    gone = report.get("floor", 0) - report.get("floor_before", 0)
    return {"row": row, "gone": gone, "bytes": report.get("bytes_removed", 0), "held_by": report.get("held_by") or ""}
