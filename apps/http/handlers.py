"""What Django calls when no view answers. The console keeps Django's own pages; everybody else gets the envelope."""

import logging

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views import defaults

from apps.http import envelope
from apps.http.console import is_console
from apps.http.errors import ApiError

logger = logging.getLogger("feltdb.http")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 400 for Django's own suspicion (host, cookies, headers), 413 for a body over Django's own limit."""
    if is_console(request):
        return defaults.bad_request(request, exception)
    return envelope.response(request, suspicious(exception))


def suspicious(exception: Exception) -> ApiError:
    """Return what a Django suspicion is to the caller."""
    if isinstance(exception, RequestDataTooBig):
        return ApiError("BODY_TOO_LARGE", "The request body is larger than this server takes.")
    if isinstance(exception, DisallowedHost):
        return ApiError("HOST_INVALID", "This server does not answer to that host name; see ALLOWED_HOSTS.")
    if isinstance(exception, SuspiciousOperation):
        return ApiError("REQUEST_REFUSED", "The request is malformed.")
    return ApiError("REQUEST_REFUSED", "The request could not be read.")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 403."""
    if is_console(request):
        return defaults.permission_denied(request, exception)
    return envelope.response(request, ApiError("FORBIDDEN", "This is not allowed."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 404 for a path no room owns."""
    if is_console(request):
        return defaults.page_not_found(request, exception)
    return envelope.response(request, ApiError("NOT_FOUND", "There is nothing at this path."))


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Answer 500; Django has logged the exception already."""
    if is_console(request):
        return defaults.server_error(request)
    return envelope.response(request, ApiError("INTERNAL_ERROR", "The server failed; its log has the reason."))
