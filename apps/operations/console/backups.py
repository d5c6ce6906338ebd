"""Backups in the console: which there are and what they hold, making one, verifying one, and how one is restored.

Making and verifying go on after the page has answered (`in_background.py`). Restoring stops the instance, so it is told
as the commands to run, not done here.
"""

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.console import acting
from apps.operations.console.store_pages import VIEW
from apps.operations.models import UpkeepRun
from apps.operations.services import backups, in_background, turns, upkeep
from apps.workloads.clock import now_ms
from feltdb_engine import EngineError

MAX_SHOWN = 30
"""Backups whose manifests one page reads."""

MAX_RUNS = 20
MAX_STORES = 100
MAX_REASON_CHARS = 512


def page(site: AdminSite, request: HttpRequest, *, refusal: str = "", status: int = 200) -> HttpResponse:
    """Show which backups there are, the one at work, and how the last runs ended."""
    _refuse_stranger(request)
    found, count = backups.newest(MAX_SHOWN)
    verified = backups.last_verified(found)
    context = site.each_context(request) | {
        "title": "Backups",
        "found": [(each, verified.get(each.name)) for each in found],
        "count": count,
        "folder": settings.BACKUP_DIR,
        "free_bytes": _free_bytes(Path(settings.BACKUP_DIR)),
        "max_age_hours": settings.BACKUP_MAX_AGE_HOURS,
        "last_done_ms": upkeep.last_done_ms(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE),
        "new_name": request.POST.get("name") or backups.new_name(now_ms()),
        "may_act": request.user.is_superuser,
        "refusal": refusal,
        **_runs(UpkeepRun.Kind.BACKUP, turns.BACKUP),
    }
    return TemplateResponse(request, "console/backups.html", context, status=status)


def one(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show what one backup holds, when it was verified, and the commands that restore it."""
    _refuse_stranger(request)
    name = request.GET.get("name", "")
    try:
        path = backups.place(name)
    except ApiError as error:
        raise Http404(error.message) from error
    if not path.exists():
        raise Http404("there is no such backup")
    listed = backups.listed(path)
    context = site.each_context(request) | {
        "title": name,
        "listed": listed,
        "stores": listed.bundle.stores[:MAX_STORES] if listed.bundle else (),
        "max_stores": MAX_STORES,
        "may_act": request.user.is_superuser,
        **_runs(UpkeepRun.Kind.VERIFICATION, turns.VERIFICATION, name),
    }
    return TemplateResponse(request, "console/backup.html", context)


def run(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Begin a backup of the whole instance."""
    _refuse_all_but_administrators(request)
    if request.method != "POST":
        return HttpResponseRedirect(reverse("admin:backups"))
    name = request.POST.get("name", "").strip()
    try:
        in_background.back_up(name, by=acting(request), reason=request.POST.get("reason", "")[:MAX_REASON_CHARS])
    except (ApiError, EngineError) as refused:
        return page(site, request, refusal=refused.message, status=_status(refused))
    messages.success(request, f"The backup {name} has begun; this page tells how far it is.")
    return HttpResponseRedirect(reverse("admin:backups"))


def verify(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Begin to verify one backup."""
    _refuse_all_but_administrators(request)
    name = request.POST.get("name", "")
    if request.method != "POST":
        return HttpResponseRedirect(reverse("admin:backups"))
    try:
        in_background.verify(name, by=acting(request))
    except (ApiError, EngineError) as refused:
        return page(site, request, refusal=refused.message, status=_status(refused))
    messages.success(request, "The verification has begun; this page tells how far it is.")
    return HttpResponseRedirect(f"{reverse('admin:backup')}?{urlencode({'name': name})}")


def _refuse_stranger(request: HttpRequest) -> None:
    if not request.user.has_perm(VIEW):
        raise PermissionDenied


def _refuse_all_but_administrators(request: HttpRequest) -> None:
    if not request.user.is_superuser:
        raise PermissionDenied


def _status(refused: ApiError | EngineError) -> int:
    """A name that cannot be is the form's mistake; whatever else refuses is how things stand."""
    return 422 if refused.code == "VALIDATION_ERROR" else 409


def _free_bytes(folder: Path) -> int:
    """Return the room on the disk where backups are, or will be once the first is made."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _runs(kind: UpkeepRun.Kind, turn: str, subject: str | None = None) -> dict[str, Any]:
    """Return the last runs, and the one at work: a run that has not ended is one only while somebody has the turn."""
    at_work = turns.taken(turn)
    rows = [row for row in upkeep.newest(kind, limit=MAX_RUNS) if subject is None or row.subject == subject]
    running = next((row for row in rows if at_work and not row.outcome), None)
    told = [(row, json.loads(row.report or "{}")) for row in rows if row is not running]
    return {"at_work": at_work, "running": running, "runs": told}
