"""The contract of a namespace in the console: what its records are held to. It is changed over the API."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse

from apps.operations.console.store_pages import answer, enter
from apps.state.stores import store

MAX_COLLECTIONS = 200


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show the contract in force, collection by collection, one that is being activated, and the declared indexes."""
    namespace = enter(request)

    def read() -> dict[str, Any]:
        opened = store(namespace)
        found: Any = opened.contract()
        parts = found.contract["collections"]
        pending = found.pending["collections"] if found.pending else None
        return {
            "revision": found.revision,
            "since": found.sequence,
            "parts": sorted(parts.items())[:MAX_COLLECTIONS],
            "more": len(parts) > MAX_COLLECTIONS,
            "pending": None if pending is None else sorted(pending),
            "indexes": opened.indexes()[:MAX_COLLECTIONS],
            "api_url": request.build_absolute_uri("/v1/schema"),
        }

    return answer(site, request, "console/contract.html", "Contract", read)
