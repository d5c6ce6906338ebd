"""Health over HTTP, open to everybody: it names no record and no key."""

import time
from dataclasses import asdict

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.http import strict_json
from apps.operations.services.health import observe


def answer(document: dict[str, object], status: int = 200) -> HttpResponse:
    """Return `document` as JSON that no cache keeps."""
    response = HttpResponse(strict_json.dumps(document), status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Liveness: 200 as long as the process answers; `status` says whether it is well."""
    seen = observe()
    return answer(
        {
            "status": "healthy" if seen.ready and seen.storage == "clean" else "degraded",
            "storage": seen.storage,
            "writes": "available" if seen.ready else "unavailable",
            "reasons": [asdict(reason) for reason in seen.reasons],
        }
    )


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Readiness: 200 when the database and every store answer, else 503 with the reasons."""
    started = time.monotonic()
    seen = observe()
    return answer(
        {
            "ready": seen.ready,
            "storage": seen.storage,
            "durable_format": seen.durable_format,
            "probe_ms": round((time.monotonic() - started) * 1000),
            "reasons": [asdict(reason) for reason in seen.reasons],
        },
        status=200 if seen.ready else 503,
    )
