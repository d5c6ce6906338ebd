"""How routes are described in the OpenAPI document, so that each names its bodies, answers, refusals and examples.

A view's method is described where it stands:

    @describe("read_record", "Read a record", tag="State", answers={200: Answer("The record.", ref("Record"))},
              errors=["NOT_FOUND"])

Refusals every keyed route can give (no key, wrong scope, malformed body, ...) are added from the view itself. Shapes
are JSON Schema as it is (OpenAPI 3.1), registered by each room with `add_schemas`. Not here: any room's shapes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from apps.http.codes import CODES

F = TypeVar("F", bound=Callable[..., Any])
Schema = dict[str, Any]

_ERRORS = "x-error-codes"

ERROR: Schema = {
    "type": "object",
    "description": "Every refusal has this shape. Members particular to a code stand beside these.",
    "required": ["code", "error", "message", "request_id", "type", "title", "status"],
    "properties": {
        "code": {"type": "string", "description": "Stable; the table of codes is part of the contract."},
        "error": {"type": "string", "description": "The same as `code`."},
        "message": {"type": "string", "description": "A sentence for people; it may change."},
        "request_id": {"type": "string", "description": "The same as the answer's X-Request-ID."},
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "details": {"description": "Names the field or JSON pointer, where there is one."},
        "committed": {
            "enum": [False, "unknown"],
            "description": "With a refused write: whether it may have happened. `unknown`: ask by its id.",
        },
    },
}

_schemas: dict[str, Schema] = {"Error": ERROR}


@dataclass(frozen=True, slots=True)
class Answer:
    """One way a route succeeds. `schema` None means no body; `headers` name those of the shared table that come.

    A body of another `media` than JSON is described by `schema` as text.
    """

    description: str
    schema: Schema | None = None
    example: Any = None
    headers: tuple[str, ...] = ()
    media: str = "application/json"


RESPONSE_HEADERS = {
    "ETag": "The record's version in quotes, for If-Match and If-None-Match.",
    "FeltDB-Revision": "The position of the namespace's state: every operation up to it is in this answer.",
    "Idempotent-Replay": "`true` where this repeats the first outcome of the same Idempotency-Key.",
    "Location": "Where the new record is.",
    "Retry-After": "Seconds until it is worth trying again.",
}


def ref(name: str) -> Schema:
    """Return a reference to a registered shape."""
    return {"$ref": f"#/components/schemas/{name}"}


def add_schemas(schemas: Mapping[str, Schema]) -> None:
    """Register a room's shapes under their names. Raises ValueError for a name taken by another shape."""
    for name, schema in schemas.items():
        if _schemas.setdefault(name, schema) != schema:
            raise ValueError(f"the shape {name} is registered twice")


def query_parameter(name: str, description: str, schema: Schema | None = None) -> OpenApiParameter:
    """Describe one optional query parameter."""
    return OpenApiParameter(name, schema or {"type": "string"}, OpenApiParameter.QUERY, description=description)


def header_parameter(name: str, description: str, schema: Schema | None = None) -> OpenApiParameter:
    """Describe one optional request header."""
    return OpenApiParameter(name, schema or {"type": "string"}, OpenApiParameter.HEADER, description=description)


def path_parameter(name: str, description: str, schema: Schema | None = None) -> OpenApiParameter:
    """Describe one path segment."""
    return OpenApiParameter(
        name, schema or {"type": "string"}, OpenApiParameter.PATH, required=True, description=description
    )


def describe(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    answers: Mapping[int, Answer],
    description: str = "",
    body: Schema | None = None,
    body_media: str = "application/json",
    also: Sequence[str] = (),
    body_examples: Mapping[str, Any] | None = None,
    errors: Sequence[str] = (),
    parameters: Sequence[OpenApiParameter] = (),
    public: bool = False,
) -> Callable[[F], F]:
    """Describe the method of a view for the OpenAPI document. `also` are other media types its body may be called.

    Raises KeyError for a code that is not in the table.
    """
    for code in errors:
        CODES[code]
    headers = [
        OpenApiParameter(name, {"type": "string"}, OpenApiParameter.HEADER, response=[status], description=text)
        for status, answer in answers.items()
        for name, text in RESPONSE_HEADERS.items()
        if name in answer.headers
    ]
    examples = [
        OpenApiExample(
            f"{status} {answer.description}",
            answer.example,
            response_only=True,
            status_codes=[status],
            media_type=answer.media,
        )
        for status, answer in answers.items()
        if answer.example is not None
    ]
    examples += [
        OpenApiExample(name, value, request_only=True, media_type=media)
        for name, value in (body_examples or {}).items()
        for media in (body_media, *also)
    ]
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description or summary + ".",
        tags=[tag],
        request={media: body for media in (body_media, *also)} if body is not None else None,
        responses={
            (status, answer.media): OpenApiResponse(answer.schema, description=answer.description)
            for status, answer in answers.items()
        },
        examples=examples,
        parameters=[*parameters, *headers],
        extensions={_ERRORS: sorted(errors)},
        auth=[] if public else None,
    )


class RouteSchema(AutoSchema):
    """Adds to each operation what the view's door makes possible: refusals, shared headers, a body that must come."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Return the operation with its refusals."""
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        body = operation.get("requestBody")
        if body is not None and getattr(self.view, "empty_body", None) is None:
            body["required"] = True
        codes = sorted({*operation.get(_ERRORS, ()), *self._door_codes(operation)})
        operation[_ERRORS] = codes
        for status in sorted({CODES[code].status for code in codes}):
            here = [code for code in codes if CODES[code].status == status]
            operation["responses"].setdefault(str(status), _refusals(here))
        return operation

    def _door_codes(self, operation: Mapping[str, Any]) -> set[str]:
        """Return the codes that the view's door gives before the method runs, and those any route may give."""
        codes = {"PROTOCOL_UNSUPPORTED", "SERVICE_OVERLOADED", "INTERNAL_ERROR", "METHOD_NOT_ALLOWED"}
        codes.add("VALIDATION_ERROR")  # of the headers that every route understands
        scopes = getattr(self.view, "scopes", None)
        if scopes is not None:
            codes |= {"AUTHENTICATION_REQUIRED", "DATABASE_UNAVAILABLE", "RATE_LIMITED"}
            if scopes.get(self.method) is not None:
                codes.add("FORBIDDEN")
            if getattr(self.view, "namespaced", False):
                codes |= {"NAMESPACE_REQUIRED", "FORBIDDEN"}
        if "requestBody" in operation:
            codes |= {"JSON_INVALID", "JSON_TOO_DEEP", "VALIDATION_ERROR", "BODY_TOO_LARGE"}
            codes.add("UNSUPPORTED_MEDIA_TYPE")
        return codes

    def get_override_parameters(self) -> list[Any]:
        """Add the headers that every keyed route understands."""
        shared = [
            header_parameter("X-Request-ID", "An id of yours for this request; it comes back, and goes into the log."),
            header_parameter("FeltDB-Protocol", "`1`, or left out; another value answers 426.", {"enum": ["1"]}),
            header_parameter(
                "FeltDB-Numbers",
                "`string` gives integers beyond 2^53 as strings.",
                {"enum": ["number", "string"], "default": "number"},
            ),
        ]
        if getattr(self.view, "namespaced", False):
            shared.append(
                header_parameter("FeltDB-Namespace", "Which namespace is meant; needed with a key for several.")
            )
        return shared


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How keys are sent."""

    target_class = "apps.keys.authentication.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the security scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A key, `fdb_...`, as `manage.py keys create` gives it.",
        }


def canonical_only(endpoints: list[Any], **_: Any) -> list[Any]:
    """Leave out the reference's names for routes (a drf-spectacular pre-processing hook)."""
    return [each for each in endpoints if each[0].startswith("/v1/")]


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Put the registered shapes, and a refusal of each code, into the document (a post-processing hook)."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    for name in sorted(_schemas):
        schemas.setdefault(name, _schemas[name])
    result["components"]["examples"] = {code: {"value": _example(code)} for code in sorted(CODES)}
    return result


def _refusals(codes: Sequence[str]) -> dict[str, Any]:
    """Describe the refusals of one status, with an example of each code."""
    return {
        "description": "; ".join(f"`{code}`: {CODES[code].title}" for code in codes),
        "content": {
            "application/json": {
                "schema": ref("Error"),
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _example(code: str) -> dict[str, Any]:
    title, status = CODES[code].title, CODES[code].status
    return {
        "code": code,
        "error": code,
        "message": title + ".",
        "request_id": "req_00000000000000000000000000000000",
        "type": "urn:feltdb:code:" + code.lower().replace("_", "-"),
        "title": title,
        "status": status,
    }
