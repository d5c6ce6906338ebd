"""Which methods a route has, said by OPTIONS and with every 405, for every view of the API alike."""

from collections.abc import Sequence
from typing import Any, NoReturn

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.http.errors import ApiError


class StatedMethods(APIView):
    """A view that says its methods itself: the base would add a description of its own, and `Allow` to every answer.

    `beside` are methods that another view answers at the same path.
    """

    beside: Sequence[str] = ()

    @property
    def allowed_methods(self) -> list[str]:
        """Return the methods of the path, sorted."""
        return sorted({*super().allowed_methods, *self.beside})

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Return none: the methods there are go out with 405 and with OPTIONS only."""
        return {}

    def http_method_not_allowed(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:  # type: ignore[override]
        """Refuse with 405 and the methods there are."""
        allowed = ", ".join(self.allowed_methods)
        raise ApiError("METHOD_NOT_ALLOWED", f"Allowed here: {allowed}.", headers={"Allow": allowed})

    def options(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # type: ignore[override]
        """Answer 204 with the methods there are."""
        return Response(status=204, headers={"Allow": ", ".join(self.allowed_methods)})
