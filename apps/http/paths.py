"""Ids in paths: one percent-encoded segment, read from the raw request target.

WSGI hands over a path that is already decoded, in which `a%2Fb` and `a/b` look alike. So the middleware routes the
API by the target as it was sent, and `decode_segment` turns one segment into text under strict rules; views behind a
key get their segments decoded (`apps/keys/views.py`). Other routes keep Django's decoded path.
"""

import re
from collections.abc import Callable
from urllib.parse import quote, unquote_to_bytes, urlsplit

from django.http import HttpRequest, HttpResponseBase

from apps.http.errors import ApiError

RAW_PREFIXES = ("/v1/", "/collections/", "/transactions/", "/provenance/", "/capabilities/")

_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNSAFE = re.compile(r"[^!-~]")
_NEEDLESS = re.compile(r"%(2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae])")
"""Escapes of letters, digits, `-`, `.`, `_` and `~`: by RFC 3986, 2.3, the same as what they stand for."""


class RawPathMiddleware:
    """Route `RAW_PREFIXES` by the raw target (gunicorn's RAW_URI, else REQUEST_URI), all else as Django does.

    Where a server gives neither, the decoded path is encoded again: only an encoded slash is lost then.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Put the undecoded path in place of the decoded one before the URL is resolved."""
        if request.path_info.startswith(RAW_PREFIXES):
            target = request.META.get("RAW_URI") or request.META.get("REQUEST_URI")
            if target:
                request.path_info = _path_of(target, request.META.get("SCRIPT_NAME", ""))
            else:
                request.path_info = quote(request.path_info, safe="/")
        return self.get_response(request)


def _path_of(target: str, script_name: str) -> str:
    if not target.startswith("/"):
        target = urlsplit(target).path  # absolute form, as sent to a proxy
    path = target.partition("#")[0].partition("?")[0]
    if script_name and path.startswith(script_name):
        path = path[len(script_name) :]
    if "%" not in path or _MALFORMED.search(path):
        return path
    return _NEEDLESS.sub(lambda found: chr(int(found[1], 16)), path)


def decode_segment(raw: str, field: str) -> str:
    """Return the text of one path segment. Raises VALIDATION_ERROR for a bad escape or bytes that are not UTF-8."""
    if _MALFORMED.search(raw):
        raise _refusal(field, "has a '%' that is not followed by two hexadecimal digits")
    if _UNSAFE.search(raw):
        raise _refusal(field, "has characters that must be percent-encoded")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal(field, "is not UTF-8 once decoded") from error


def _refusal(field: str, problem: str) -> ApiError:
    return ApiError("VALIDATION_ERROR", f"The {field} in the path {problem}.", details={"field": field})
