"""Django's cookie middleware for the console alone.

`/v1` knows keys and no cookies: it neither reads the console's session nor pays for it.
"""

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.deprecation import MiddlewareMixin

CONSOLE_PREFIX = "/admin/"


def is_console(request: HttpRequest) -> bool:
    """Tell whether the request is for the console."""
    return request.path_info.startswith(CONSOLE_PREFIX)


class _ConsoleOnly(MiddlewareMixin):
    """Steps aside for every other path."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_console(request):
            return super().__call__(request)  # type: ignore[return-value] # nothing here is asynchronous
        answer: HttpResponseBase = self.get_response(request)  # type: ignore[assignment]
        return answer


class ConsoleSession(_ConsoleOnly, SessionMiddleware):
    """Sessions."""


class ConsoleCsrf(_ConsoleOnly, CsrfViewMiddleware):
    """Protection of forms. Its check of views stays on for every path; API views are exempt, having no cookies."""


class ConsoleAuthentication(_ConsoleOnly, AuthenticationMiddleware):
    """Who is signed in."""


class ConsoleMessages(_ConsoleOnly, MessageMiddleware):
    """One-time messages."""


class ConsoleFrames(_ConsoleOnly, XFrameOptionsMiddleware):
    """No page of the console in a frame."""
