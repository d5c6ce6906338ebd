"""What every request passes, whichever room answers: a request id, the protocol's version, JSON for every refusal.

The console alone keeps pages for its refusals.
"""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.http import envelope, numbers
from apps.http import request_id as ambient
from apps.http.codes import CODES, code_for
from apps.http.console import is_console
from apps.http.errors import ApiError
from apps.http.limits import MAX_REQUEST_ID_CHARS

PROTOCOL = "1"
"""The version of the contract that `/v1` is."""

_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_REQUEST_ID_CHARS}}}")


class RequestIdMiddleware:
    """Sets `request.request_id`: the caller's `X-Request-ID` when well formed, else a new one. Always sends it back.

    The outermost of all, it also gives every answer that is there whole its length, whichever layer made it: without
    one the server would send it in chunks, which a simple client of ours or others' need not read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        asked = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else envelope.new_request_id()
        request.request_id = request_id  # type: ignore[attr-defined]
        token = ambient.set_current(request_id)
        try:
            answer = self.get_response(request)
        finally:
            ambient.reset(token)
        answer.headers["X-Request-ID"] = request_id
        if isinstance(answer, HttpResponse) and "Content-Length" not in answer.headers:
            answer.headers["Content-Length"] = str(len(answer.content))
        return answer


class GateMiddleware:
    """Refuses another `FeltDB-Protocol` (none means this one), and for the console, whose views ask no such question,
    NUL in the target: PostgreSQL takes none. Gives numbers in the form that `FeltDB-Numbers` asks for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        asked = request.META.get("HTTP_FELTDB_PROTOCOL")
        if asked is not None and asked != PROTOCOL:
            message = f"This server speaks protocol {PROTOCOL}; leave FeltDB-Protocol out or send that."
            headers = {"FeltDB-Protocol": PROTOCOL}
            return envelope.response(request, ApiError("PROTOCOL_UNSUPPORTED", message, headers=headers))
        if is_console(request) and ("\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", "")):
            return envelope.response(request, ApiError("REQUEST_REFUSED", "A request's target cannot hold NUL."))
        if "HTTP_FELTDB_NUMBERS" not in request.META:
            return self.get_response(request)
        try:
            as_strings = numbers.asked(request)
        except ApiError as refusal:
            return envelope.response(request, refusal)
        answer = self.get_response(request)
        return numbers.as_strings(answer) if as_strings else answer


class JSONErrorsMiddleware:
    """Turns any refusal that is not JSON already into the envelope, outside the console.

    Django and libraries answer some refusals themselves, as HTML or empty; with DEBUG even with a traceback.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        if answer.status_code < 400 or answer.headers.get("Content-Type", "").startswith("application/json"):
            return answer
        if is_console(request):
            return answer
        return _as_envelope(request, answer)


def _as_envelope(request: HttpRequest, answer: HttpResponseBase) -> HttpResponse:
    code = code_for(answer.status_code)
    replacement = envelope.response(request, ApiError(code, CODES[code].title + "."))
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in answer.headers:
            replacement.headers[name] = answer.headers[name]
    answer.close()
    return replacement
