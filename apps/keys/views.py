"""The base of every view under `/v1`: a key, a scope, a namespace, strict JSON in and out, and nothing else."""

from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from rest_framework.request import Request

from apps.http.errors import ApiError, authentication_required
from apps.http.headers import Headers
from apps.http.limits import MAX_BODY_BYTES
from apps.http.methods import StatedMethods
from apps.http.negotiation import JSONOnly
from apps.http.parsers import StrictJSONParser, read_json
from apps.http.paths import decode_segment
from apps.http.renderers import StrictJSONRenderer
from apps.keys import bookkeeping, rates
from apps.keys.authentication import KeyAuthentication
from apps.keys.clock import utc_now
from apps.keys.permissions import namespace_of, require_scope
from apps.keys.principal import Principal

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_RENDERER = StrictJSONRenderer()
_AUTHENTICATION = KeyAuthentication()
_NEGOTIATOR = JSONOnly()


class KeyedRequest(Request):
    """A request that passed the door: who it comes from and which namespace it acts in."""

    principal: Principal
    namespace: str
    request_id: str
    allowance: rates.Allowance
    _full_data: Any

    def __init__(self, request: HttpRequest) -> None:
        """Take `request`; what every room asks of it is looked up here once, not by way of `__getattr__` each time."""
        super().__init__(request, negotiator=_NEGOTIATOR)
        self.META, self.method = request.META, request.method
        self.headers = Headers(request)  # type: ignore[assignment] # a mapping as the other, read only

    def still_held(self) -> bool:
        """Tell whether the caller's key still is what it was when the request came in.

        Whatever waits on a caller's behalf (a stream, a waiting claim) asks at each look, and before it gives anything:
        a key that was revoked, expired or rotated away meanwhile ends the wait.
        """
        try:
            principal, _ = _AUTHENTICATION.authenticate(self)
        except ApiError:
            return False
        return principal == self.principal

    def require_still_held(self) -> None:
        """Raise ApiError AUTHENTICATION_REQUIRED where the caller's key ended meanwhile."""
        if not self.still_held():
            raise authentication_required()


class OpenView(StatedMethods):
    """A view that asks for no key, with strict JSON in and out as behind the door. It has no namespace."""

    authentication_classes = []
    permission_classes = []
    parser_classes = [StrictJSONParser]
    renderer_classes = [StrictJSONRenderer]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Return the request as the methods see it, its body read where there is one to read."""
        made = Request(request, negotiator=JSONOnly())
        made.accepted_renderer, made.accepted_media_type = _RENDERER, _RENDERER.media_type
        return made

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Read the body before the method runs."""
        if request.method in _WITH_BODY and request.method in self.allowed_methods:
            request._full_data = read_json(request._request, max_bytes=MAX_BODY_BYTES)  # type: ignore[attr-defined]


class KeyedView(StatedMethods):
    """A view behind a key.

    `scopes` names for each method the scope it needs, or None where any valid key will do; a method without an
    entry fails when the view is wired up. `also` names scopes that a method needs besides, `by_body` those that it
    asks for where the body calls for them. A body of POST, PUT and
    PATCH is read before the method runs, and is `request.data`; `empty_body` is what no body at all stands for, or
    None where a body must come. A view that reads its body itself sets `reads_json = False`. Segments of the path come
    decoded; `path_fields` says how a refusal names one, where not by its name in the route. In the method,
    `request.principal` and `request.namespace` (unless `namespaced = False`) are set.
    """

    scopes: ClassVar[dict[str, str | None]] = {}
    also: ClassVar[dict[str, tuple[str, ...]]] = {}
    by_body: ClassVar[dict[str, tuple[str, ...]]] = {}
    namespaced: ClassVar[bool] = True
    reads_json: ClassVar[bool] = True
    empty_body: ClassVar[Any] = None
    max_body_bytes: ClassVar[int] = MAX_BODY_BYTES
    path_fields: ClassVar[dict[str, str]] = {}

    authentication_classes = [KeyAuthentication]
    permission_classes = []  # the door below asks for the scope itself
    parser_classes = [StrictJSONParser]
    renderer_classes = [StrictJSONRenderer]

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return the view function. Raises ImproperlyConfigured where a method has no entry in `scopes`."""
        for method in METHODS:
            if hasattr(cls, method.lower()) and method not in cls.scopes:
                raise ImproperlyConfigured(f"{cls.__name__}.scopes has no entry for {method}")
        return super().as_view(**initkwargs)

    @classmethod
    def needed(cls, method: str) -> tuple[str, ...]:
        """Return every scope that the method needs, in the order in which they are asked for."""
        scope = cls.scopes[method]
        return (*(() if scope is None else (scope,)), *cls.also.get(method, ()))

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> KeyedRequest:
        """Return the request as the methods see it; nothing is negotiated, so nothing is prepared for it."""
        return KeyedRequest(request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Hold the door in this order: key, allowance, scope, namespace, path, body."""
        assert isinstance(request, KeyedRequest)  # noqa: S101 (made just above)
        request.accepted_renderer, request.accepted_media_type = _RENDERER, _RENDERER.media_type
        request.principal, _ = _AUTHENTICATION.authenticate(request)
        self._take_from_allowance(request)
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method not in self.scopes:
            return  # OPTIONS, or a method that is about to be refused with 405
        for scope in self.needed(method):
            require_scope(request.principal, scope)
            bookkeeping.note_use(request.principal.key_id, scope, now=utc_now())
        if self.namespaced:
            request.namespace = namespace_of(request.principal, request.META.get("HTTP_FELTDB_NAMESPACE"))
        for name, segment in self.kwargs.items():  # the method is called with what they are now
            if type(segment) is str:
                self.kwargs[name] = decode_segment(segment, self.path_fields.get(name, name))
        if self.reads_json and method in _WITH_BODY:
            request._full_data = self._read_body(request)

    def _take_from_allowance(self, request: KeyedRequest) -> None:
        allowances = rates.shared()
        if allowances is None or not request.principal.key_id:
            return
        request.allowance = left = allowances.take(request.principal.key_id)
        if left.refused:
            message = f"This key has sent too many requests; the next may come in {left.wait_s} s."
            raise ApiError("RATE_LIMITED", message)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Tell the caller of its allowance, where there is one."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        left: rates.Allowance | None = getattr(request, "allowance", None)
        if left is not None:
            for name, value in left.headers.items():
                answer.headers[name] = value
        return answer

    def _read_body(self, request: KeyedRequest) -> Any:
        meta = request.META
        if self.empty_body is not None and not meta.get("HTTP_TRANSFER_ENCODING"):
            if meta.get("CONTENT_LENGTH") in (None, "", "0"):
                return self.empty_body
        return read_json(request._request, max_bytes=self.max_body_bytes)
