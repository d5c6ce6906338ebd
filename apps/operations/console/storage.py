"""Storage in the console: how the store of each namespace stands, and acknowledging a recovery."""

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.console import acting
from apps.keys.models import Namespace
from apps.operations.services import storage
from feltdb_engine import EngineError

VIEW = "keys.view_namespace"


def page(site: AdminSite, request: HttpRequest, *, refusal: str = "", status: int = 200) -> HttpResponse:
    """Show every store."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    context = site.each_context(request) | {
        "title": "Storage",
        "stores": storage.stores(),
        "max_stores": storage.MAX_NAMESPACES,
        "may_act": request.user.is_superuser,
        "refusal": refusal,
    }
    return TemplateResponse(request, "console/storage.html", context, status=status)


def acknowledge(site: AdminSite, request: HttpRequest, namespace: str) -> HttpResponse:
    """Take note that an administrator has looked at the store's last recovery."""
    if not request.user.is_superuser:
        raise PermissionDenied
    if not Namespace.objects.filter(pk=namespace).exists():
        raise Http404("there is no such namespace")
    if request.method != "POST":
        return HttpResponseRedirect(reverse("admin:storage"))
    try:
        storage.acknowledge_recovery(namespace, by=acting(request), seen=request.POST.get("seen", ""))
    except (EngineError, ApiError) as error:
        return page(site, request, refusal=f"{namespace}: {error.message}", status=409)
    messages.success(request, f"Noted: somebody has looked at the recovery of {namespace}.")
    return HttpResponseRedirect(reverse("admin:storage"))
