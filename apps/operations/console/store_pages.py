"""What every page about a namespace's store shares: who may see it, numbers in its address, a store that fails.

A page about a store asks it for no longer than READ_S, so that one large collection holds up nobody.
"""

import time
from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.http.errors import ApiError
from apps.keys.console import namespace_choice
from feltdb_engine import EngineError
from feltdb_engine.errors import (
    CursorAhead,
    CursorUnknown,
    DeadlineExceeded,
    FeedCompacted,
    InvalidCursor,
    InvalidKey,
    InvalidQuery,
    ScanLimitExceeded,
)

VIEW = "keys.view_namespace"
READ_S = 0.2
PAST_S = 2.0
"""A moment of the past costs what was written since: a person waits this long for one."""

ASKED_TOO_MUCH = (
    CursorAhead,
    CursorUnknown,
    DeadlineExceeded,
    FeedCompacted,
    InvalidCursor,
    InvalidQuery,
    ScanLimitExceeded,
)
"""Refusals of what was asked; the store itself is well."""

NEXT_STEPS = {
    "FEED_COMPACTED": "History is kept for a time only; the oldest that is left is on the page of changes.",
    "CURSOR_AHEAD": "Choose a revision up to the newest one.",
    "SCAN_LIMIT_EXCEEDED": "Choose a later revision, or narrow what is asked.",
    "DEADLINE_EXCEEDED": "It took too long: choose a later revision, narrow what is asked, or ask over the API.",
}


def enter(request: HttpRequest) -> str:
    """Return the namespace the page is about. Raises PermissionDenied, and Http404 where there is none at all."""
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    namespace = namespace_choice(request).current
    if not namespace:
        raise Http404("there is no namespace")
    return namespace


def answer(
    site: AdminSite, request: HttpRequest, template: str, title: str, read: Callable[[], dict[str, Any]], **shared: Any
) -> HttpResponse:
    """Read and show; what cannot be read is told on the page, a name no record can have is not found.

    `shared` is there also where nothing could be read.
    """
    context = site.each_context(request) | {"title": title} | shared
    try:
        return TemplateResponse(request, template, context | read())
    except InvalidKey as error:
        raise Http404(error.message) from error
    except ASKED_TOO_MUCH as error:
        asked = {"refusal": error.message, "next_step": NEXT_STEPS.get(error.code, "")}
        return TemplateResponse(request, template, context | asked, status=422)
    except (EngineError, ApiError) as error:
        return TemplateResponse(request, template, context | {"trouble": error.message}, status=503)


def number(request: HttpRequest, name: str) -> int | None:
    """Return a whole number of the address, None where there is none. Raises InvalidQuery for anything else."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise InvalidQuery(f"{text!r} is no sequence: a sequence is a whole number.", pointer=f"/{name}")
    return int(text)


def soon() -> float:
    """Return until when a page may read."""
    return time.monotonic() + READ_S
