"""Routes that share a path: an action, and the thing that happens to have the action's name.

Any text may be a record's id, so `POST /collections/orders/search` must not hide the record `search`.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.methods import StatedMethods


def action(view: type[StatedMethods], *, beside: type[StatedMethods], **named: str) -> Callable[..., HttpResponseBase]:
    """Return a view function: `view` for the methods it has, `beside` as the thing so named for all others."""
    methods, theirs = _methods(view), _methods(beside)
    here, there = view.as_view(beside=sorted(theirs)), beside.as_view(beside=sorted(methods))

    def either(request: HttpRequest, **segments: str) -> HttpResponseBase:
        return here(request, **segments) if request.method in methods else there(request, **segments, **named)

    function: Any = either
    function.cls, function.beside, function.initkwargs, function.csrf_exempt = view, beside, {}, True
    return either


def _methods(view: type[StatedMethods]) -> frozenset[str]:
    return frozenset(name.upper() for name in view.http_method_names if name != "options" and hasattr(view, name))
