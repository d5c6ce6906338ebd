"""The API's description of itself: the OpenAPI document, and a page to read it that loads nothing from elsewhere.

Both are open to everybody: they hold no record and no key.
"""

from functools import lru_cache

from django.http import HttpResponse
from django.shortcuts import render
from drf_spectacular.generators import SchemaGenerator
from rest_framework.request import Request

from apps.http import strict_json
from apps.keys.views import OpenView

_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@lru_cache(maxsize=1)
def document() -> bytes:
    """Return the OpenAPI document of all rooms as JSON; made once, since routes do not change while running."""
    return strict_json.dumps(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]


class DocumentView(OpenView):
    """The OpenAPI document."""

    def get(self, request: Request) -> HttpResponse:
        """Answer with the document."""
        return HttpResponse(document(), content_type="application/json", headers={"Cache-Control": "no-cache"})


class PageView(OpenView):
    """The page to read it."""

    def get(self, request: Request) -> HttpResponse:
        """Answer with the page. Swagger UI writes style attributes, hence the one exception in its policy."""
        answer = render(request._request, "state/docs.html")
        answer.headers["Content-Security-Policy"] = _SECURITY_POLICY
        return answer
