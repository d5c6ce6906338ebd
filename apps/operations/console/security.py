"""The headers that keep a console page to itself: scripts, styles and forms of this origin only, nothing inline."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http.console import is_console

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


class ConsoleSecurityMiddleware:
    """Sets the policy on every answer under the console's path, whoever made it, and keeps it out of caches."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        if is_console(request):
            answer.headers["Content-Security-Policy"] = POLICY
            answer.headers["Cache-Control"] = "no-store"
        return answer
