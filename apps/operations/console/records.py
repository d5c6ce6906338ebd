"""Records in the console: the collections of a namespace, a page of one, one record. To look at, never to change."""

from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.http.errors import ApiError
from apps.keys.console import namespace_choice
from apps.state.stores import store
from apps.triggers.models import Trigger
from feltdb_engine import EngineError
from feltdb_engine.errors import InvalidKey

VIEW = "keys.view_namespace"
PAGE_RECORDS = 50
MAX_COLLECTIONS = 500
MAX_PREVIEW_CHARS = 160
"""Characters of a record's value shown in a list."""


def collections(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """List the collections that hold records, with how many."""
    namespace = _enter(request)

    def read() -> dict[str, Any]:
        found = store(namespace).collections()
        return {"collections": found[:MAX_COLLECTIONS], "more": len(found) > MAX_COLLECTIONS}

    return _answer(site, request, "console/collections.html", "Records", read)


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """List records of one collection in the order of their ids, from after an id on."""
    namespace = _enter(request)
    collection, after = request.GET.get("collection", ""), request.GET.get("after") or None

    def read() -> dict[str, Any]:
        found = store(namespace).page(collection, after=after, limit=PAGE_RECORDS)
        watched = Trigger.objects.filter(namespace=namespace, source_collection=collection)
        return {
            "collection": collection,
            "after": after,
            "records": found.records,
            "next_after": found.next_after,
            "preview_chars": MAX_PREVIEW_CHARS,
            "triggers": list(watched.exclude(state=Trigger.State.ARCHIVED).order_by("trigger_id")[:PAGE_RECORDS]),
        }

    return _answer(site, request, "console/records.html", collection, read)


def one(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show one record as it is now."""
    namespace = _enter(request)
    key = f"{request.GET.get('collection', '')}:{request.GET.get('id', '')}"

    def read() -> dict[str, Any]:
        record = store(namespace).get(key)
        if record is None:
            raise Http404(f"there is no record {key}")
        path = f"/v1/collections/{record.collection}/"
        return {"record": record, "api_url": request.build_absolute_uri(path), "namespace": namespace}

    return _answer(site, request, "console/record.html", key, read)


def _enter(request: HttpRequest) -> str:
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    namespace = namespace_choice(request).current
    if not namespace:
        raise Http404("there is no namespace")
    return namespace


def _answer(
    site: AdminSite, request: HttpRequest, template: str, title: str, read: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Read and show; a store that cannot be read is told on the page, a name no record can have is not found."""
    context = site.each_context(request) | {"title": title}
    try:
        return TemplateResponse(request, template, context | read())
    except InvalidKey as error:
        raise Http404(error.message) from error
    except (EngineError, ApiError) as error:
        return TemplateResponse(request, template, context | {"trouble": error.message}, status=503)
