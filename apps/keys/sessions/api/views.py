"""`/v1/auth`: people's sessions over HTTP. Thin: the rules are in `services.py`."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from apps.http.errors import ApiError
from apps.http.openapi import Answer, Schema, add_schemas, describe, ref
from apps.keys import limits
from apps.keys.clock import now_ms
from apps.keys.models import NAMESPACE_PATTERN
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import SCOPES
from apps.keys.sessions import services
from apps.keys.views import KeyedRequest, KeyedView, OpenView

_NAMES: Schema = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": limits.MAX_LISTED}
_SESSION: Schema = {
    "type": "object",
    "required": ["session_id", "subject", "scopes", "namespaces", "expires_at_ms"],
    "properties": {
        "session_id": {"type": "string"},
        "subject": {
            "type": "object",
            "required": ["kind", "id"],
            "properties": {"kind": {"const": "human"}, "id": {"type": "string"}},
        },
        "scopes": {"type": "array", "items": {"enum": list(SCOPES)}},
        "namespaces": _NAMES,
        "expires_at_ms": {"type": "integer", "description": "Milliseconds since 1970."},
    },
}
add_schemas(
    {
        "Session": _SESSION,
        "OpenedSession": {
            **_SESSION,
            "required": [*_SESSION["required"], "access_token", "token_type"],
            "properties": {
                "access_token": {"type": "string", "description": "The bearer token, shown this once."},
                "token_type": {"const": "Bearer"},
                **_SESSION["properties"],
            },
        },
        "SignIn": {
            "type": "object",
            "required": ["username", "password"],
            "additionalProperties": False,
            "properties": {
                "username": {"type": "string"},
                "password": {"type": "string"},
                "scopes": {
                    "type": "array",
                    "items": {"enum": list(SCOPES)},
                    "minItems": 1,
                    "description": "Left out: all that the person holds.",
                },
                "namespaces": {**_NAMES, "description": "Left out: every namespace, named in each request."},
            },
        },
    }
)
_EXAMPLE = {"username": "ada", "password": "...", "scopes": ["workload:approve"], "namespaces": ["default"]}


def _shape(principal: Principal) -> dict[str, Any]:
    return {
        "session_id": principal.session_id,
        "subject": {"kind": principal.subject.kind.lower(), "id": principal.subject.id},
        "scopes": sorted(principal.scopes),
        "namespaces": sorted(principal.namespaces),
        "expires_at_ms": principal.expires_at_ms,
    }


class SignIn(OpenView):
    """`POST /v1/auth/signin`."""

    @describe(
        "sign_in",
        "Open a session for a person, for 15 minutes",
        tag="Sessions",
        description="For people with an account of this instance; what they hold there they hold here. After too many "
        "failures of an account or an address the answer is 429 for a while, whatever the password.",
        body=ref("SignIn"),
        body_examples={"An approver": _EXAMPLE},
        answers={200: Answer("The session and its token.", ref("OpenedSession"))},
        errors=["AUTHENTICATION_REQUIRED", "FORBIDDEN", "RATE_LIMITED", "VALIDATION_ERROR"],
        public=True,
    )
    def post(self, request: Request) -> Response:
        """Answer 200 with the session and its token."""
        body = _read(request.data)
        opened = services.sign_in(
            body["username"],
            body["password"],
            address=request.META.get("REMOTE_ADDR") or "",
            now_ms=now_ms(),
            scopes=body.get("scopes"),
            namespaces=body.get("namespaces"),
        )
        return Response(
            {"access_token": opened.secret, "token_type": "Bearer", **_shape(opened.principal)},
            headers={"Cache-Control": "no-store"},
        )


class SignOut(KeyedView):
    """`POST /v1/auth/signout`."""

    scopes = {"POST": None}
    namespaced = False
    empty_body: ClassVar[Any] = {}

    @describe(
        "sign_out",
        "End the session that asks",
        tag="Sessions",
        answers={204: Answer("It has ended, in every process.")},
        errors=["CONFLICT"],
    )
    def post(self, request: KeyedRequest) -> Response:
        """Answer 204."""
        services.sign_out(request.principal, now_ms=now_ms())
        return Response(status=204)


class OneSession(KeyedView):
    """`GET /v1/auth/session`."""

    scopes = {"GET": None}
    namespaced = False

    @describe(
        "read_session",
        "The session that asks",
        tag="Sessions",
        answers={200: Answer("Whose it is and what it may do.", ref("Session"))},
        errors=["NOT_FOUND"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with the session."""
        if request.principal.session_id is None:
            raise ApiError("NOT_FOUND", "This is a key, not a session; ask /v1/keys/current.")
        return Response(_shape(request.principal))


def _read(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _invalid("", "Must be an object.")
    unknown = sorted(set(data) - {"username", "password", "scopes", "namespaces"})
    if unknown:
        raise _invalid(unknown[0], "There is no such member here.")
    for name, most in (("username", limits.MAX_USERNAME_CHARS), ("password", limits.MAX_PASSWORD_CHARS)):
        if not isinstance(data.get(name), str) or not 1 <= len(data[name]) <= most:
            raise _invalid(name, f"Must be text of 1 to {most} characters.")
    for name in ("scopes", "namespaces"):
        given = data.get(name)
        if given is None:
            continue
        texts = isinstance(given, list) and all(isinstance(each, str) for each in given)
        if not texts or not 1 <= len(given) <= limits.MAX_LISTED:
            raise _invalid(name, f"Must be a list of 1 to {limits.MAX_LISTED} names.")
        if name == "scopes" and not set(given) <= set(SCOPES):
            raise _invalid(name, f"There is no scope {min(set(given) - set(SCOPES))!r}.")
        if name == "namespaces" and not all(each == EVERY_NAMESPACE or _NAMESPACE.fullmatch(each) for each in given):
            raise _invalid(name, "Must be names of namespaces, or *.")
    return data


_NAMESPACE = re.compile(NAMESPACE_PATTERN)


def _invalid(field: str, message: str) -> ApiError:
    return ApiError("VALIDATION_ERROR", message, details={"field": field})
