"""The base of every view under `/v1`: a key, a scope, a namespace, strict JSON in and out, and nothing else."""

from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.http.limits import MAX_BODY_BYTES
from apps.http.parsers import StrictJSONParser, read_json
from apps.http.renderers import StrictJSONRenderer
from apps.keys.authentication import KeyAuthentication
from apps.keys.permissions import ScopePermission, namespace_of
from apps.keys.principal import Principal

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_RENDERER = StrictJSONRenderer()


class KeyedView(APIView):
    """A view behind a key.

    `scopes` names for each method the scope it needs, or None where any valid key will do; a method without an
    entry fails when the view is wired up. A body of POST, PUT and PATCH is read before the method runs, and is
    `request.data`; `empty_body` is what no body at all stands for, or None where a body must come. A view that
    reads its body itself sets `reads_json = False`. In the method, `request.principal` and `request.namespace`
    (unless `namespaced = False`) are set.
    """

    scopes: ClassVar[dict[str, str | None]] = {}
    namespaced: ClassVar[bool] = True
    reads_json: ClassVar[bool] = True
    empty_body: ClassVar[Any] = None
    max_body_bytes: ClassVar[int] = MAX_BODY_BYTES

    authentication_classes = [KeyAuthentication]
    permission_classes: list[type[BasePermission]] = [ScopePermission]
    parser_classes = [StrictJSONParser]
    renderer_classes = [StrictJSONRenderer]

    principal: Principal
    namespace: str

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return the view function. Raises ImproperlyConfigured where a method has no entry in `scopes`."""
        for method in _METHODS:
            if hasattr(cls, method.lower()) and method not in cls.scopes:
                raise ImproperlyConfigured(f"{cls.__name__}.scopes has no entry for {method}")
        return super().as_view(**initkwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Hold the door in this order: key, scope, namespace, body."""
        request.accepted_renderer, request.accepted_media_type = _RENDERER, _RENDERER.media_type
        self.perform_authentication(request)
        self.check_permissions(request)
        request.principal = request.user
        method = str(request.method)
        if not hasattr(self, method.lower()) or method == "OPTIONS":
            return
        if self.namespaced:
            request.namespace = namespace_of(request.user, request.META.get("HTTP_FELTDB_NAMESPACE"))
        if self.reads_json and method in _WITH_BODY:
            request._full_data = self._read_body(request)

    def _read_body(self, request: Request) -> Any:
        meta = request.META
        if self.empty_body is not None and not meta.get("HTTP_TRANSFER_ENCODING"):
            if meta.get("CONTENT_LENGTH") in (None, "", "0"):
                return self.empty_body
        return read_json(request._request, max_bytes=self.max_body_bytes)

    def options(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Answer 204 with the methods there are."""
        return Response(status=204, headers={"Allow": ", ".join(self.allowed_methods)})
