"""Pages about the running instance: what it refuses for want of room, what the doctor finds, how much room is left."""

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.keys import rates as keyed_rates
from apps.operations.services import doctor, liveness
from apps.operations.services.capacity import capacity as look_at_capacity
from apps.operations.services.load import load
from apps.operations.services.rates import rates as look_at_rates

VIEW = "keys.view_namespace"
VIEW_KEYS = "keys.view_apikey"


def overload(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show what was admitted, shed and late, in all and by process; and the worker processes."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    context = site.each_context(request) | {"title": "Load"}
    context |= {"load": load(), "workers": liveness.standings(now=context["now_ms"])}
    return TemplateResponse(request, "console/overload.html", context)


def examined(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show what the doctor finds now, each with its next step."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    context = site.each_context(request) | {"title": "Doctor", "diagnosis": doctor.examine_briefly()}
    return TemplateResponse(request, "console/doctor.html", context)


def room(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show how much there is and how much room is left."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    context = site.each_context(request) | {"title": "Capacity", "capacity": look_at_capacity()}
    return TemplateResponse(request, "console/capacity.html", context)


def rates(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show the keys that have used of their allowance, those nearest to a refusal first."""
    if not request.user.has_perm(VIEW_KEYS):
        raise PermissionDenied
    context = site.each_context(request) | {"title": "Rates", "burst_s": keyed_rates.BURST_S}
    return TemplateResponse(request, "console/rates.html", context | {"rates": look_at_rates()})
