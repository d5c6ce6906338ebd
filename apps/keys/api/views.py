"""`/v1/keys`: keys over HTTP. Thin: the rules are in `services.py`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http.errors import ApiError
from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.keys import paging, reading, services, shapes
from apps.keys.api.schemas import read_grace, read_new_key
from apps.keys.clock import utc_now
from apps.keys.errors import KeyDenied, KeyInvalid, KeyNotFound, KeyRefused
from apps.keys.limits import DEFAULT_PAGE, MAX_PAGE
from apps.keys.models import ApiKey
from apps.keys.views import KeyedRequest, KeyedView

_ID = path_parameter("key_id", "The key's public id.")
_EXAMPLE = {"name": "flight import", "scopes": ["state:read", "state:write"], "namespaces": ["default"]}


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the service's refusals into their codes."""
    try:
        yield
    except KeyInvalid as refused:
        field = "expires_at_ms" if refused.field == "expires_at" else refused.field
        raise ApiError("VALIDATION_ERROR", f"{refused}.", details={"field": field}) from refused
    except KeyDenied as refused:
        raise ApiError("FORBIDDEN", f"{refused}.", reason="PRIVILEGE_ESCALATION_DENIED") from refused
    except KeyNotFound as refused:
        raise ApiError("NOT_FOUND", "There is no such key.") from refused
    except KeyRefused as refused:
        raise ApiError("CONFLICT", f"{refused}.") from refused


class CurrentKey(KeyedView):
    """`GET /v1/keys/current`."""

    scopes = {"GET": None}
    namespaced = False

    @describe(
        "read_current_key",
        "The key that asks",
        tag="Keys",
        answers={200: Answer("The key.", ref("Key"))},
        errors=["NOT_FOUND"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with the key's summary."""
        if not request.principal.key_id:
            raise ApiError("NOT_FOUND", "This is a person's session, not a key; ask /v1/auth/session.")
        return Response(shapes.summary(ApiKey.objects.get(pk=request.principal.key_id)))


class Keys(KeyedView):
    """`GET` and `POST /v1/keys`."""

    scopes = {"GET": "keys:admin", "POST": "keys:admin"}
    namespaced = False

    @describe(
        "list_keys",
        "Keys, newest first; never their secrets",
        tag="Keys",
        description="A page may hold fewer keys than asked for, or none, and yet not be the last.",
        parameters=[
            query_parameter("namespace", "Only keys that open this namespace."),
            query_parameter("live", "`true`: only those neither revoked nor past their expiry.", {"type": "boolean"}),
            *paging.parameters(default=DEFAULT_PAGE, maximum=MAX_PAGE),
        ],
        answers={200: paging.answer("The keys all of whose namespaces the caller may enter.", "keys", ref("Key"))},
        errors=["INVALID_CURSOR", "VALIDATION_ERROR"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with a page."""
        asked = request.query_params
        namespace, live = asked.get("namespace") or None, asked.get("live") == "true"
        shape = ("keys", *sorted(request.principal.namespaces), "where", namespace, int(live))
        page = reading.list_keys(
            reader=request.principal,
            now=utc_now(),
            namespace=namespace,
            live_only=live,
            below=paging.decode(asked.get("cursor"), *shape),
            limit=paging.read_limit(asked.get("limit"), default=DEFAULT_PAGE, maximum=MAX_PAGE),
        )
        keys = [shapes.summary(key) for key in page.keys]
        return Response({"keys": keys, "next_cursor": paging.encode(page.below, *shape)})

    @describe(
        "create_key",
        "Make a key; its secret is in this answer and nowhere else",
        tag="Keys",
        description="Nobody can give what they do not hold: scopes, namespaces, collections, life.",
        body=ref("NewKey"),
        body_examples={"a key for an import": _EXAMPLE},
        answers={201: Answer("The key and its secret.", ref("CreatedKey"))},
    )
    def post(self, request: KeyedRequest) -> Response:
        """Answer 201 with the key and its secret."""
        wanted = read_new_key(request.data, request.principal)
        with refusals():
            issued = services.issue_key(
                name=wanted.name,
                namespaces=wanted.namespaces,
                scopes=wanted.scopes,
                kind=wanted.kind,
                worker_id=wanted.worker_id,
                collections=wanted.collections,
                expires_at=wanted.expires_at,
                issuer=request.principal,
            )
        answer = shapes.created(issued.key, issued.secret)
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class OneKey(KeyedView):
    """`GET` and `DELETE /v1/keys/{key_id}`."""

    scopes = {"GET": "keys:admin", "DELETE": "keys:admin"}
    namespaced = False

    @describe(
        "read_key",
        "One key; never its secret",
        tag="Keys",
        parameters=[_ID],
        answers={200: Answer("The key, the secrets that open it, the rights it used.", ref("KeyDetail"))},
        errors=["NOT_FOUND"],
    )
    def get(self, request: KeyedRequest, key_id: str) -> Response:
        """Answer 200 with the key."""
        with refusals():
            return Response(shapes.detail(reading.get_key(key_id, reader=request.principal), now=utc_now()))

    @describe(
        "revoke_key",
        "End a key at once, in every process",
        tag="Keys",
        parameters=[_ID],
        answers={204: Answer("It is revoked; so is the answer when it was already.")},
        errors=["NOT_FOUND"],
    )
    def delete(self, request: KeyedRequest, key_id: str) -> Response:
        """Answer 204."""
        with refusals():
            services.revoke_key(key_id, by=request.principal)
        return Response(status=204)


class Rotation(KeyedView):
    """`POST /v1/keys/{key_id}/rotate`."""

    scopes = {"POST": "keys:admin"}
    namespaced = False
    empty_body: ClassVar[Any] = {}

    @describe(
        "rotate_key",
        "Give a key a new secret; it is in this answer and nowhere else",
        tag="Keys",
        description="Id and rights stay. The old secret goes on for the grace and ends exactly then; one that was in "
        "its grace already ends at once, since at most two open a key.",
        parameters=[_ID],
        body=ref("KeyRotation"),
        body_examples={"a day to change over": {"grace_ms": 86_400_000}},
        answers={201: Answer("The key and its new secret.", ref("RotatedKey"))},
        errors=["NOT_FOUND", "VALIDATION_ERROR"],
    )
    def post(self, request: KeyedRequest, key_id: str) -> Response:
        """Answer 201 with the key and its new secret."""
        grace, now = read_grace(request.data), utc_now()
        with refusals():
            issued = services.rotate_key(key_id, by=request.principal, grace=grace, now=now)
        answer = shapes.rotated(issued.key, issued.secret, now + grace if grace else None)
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class OldSecret(KeyedView):
    """`DELETE /v1/keys/{key_id}/old-secret`."""

    scopes = {"DELETE": "keys:admin"}
    namespaced = False

    @describe(
        "end_old_secret",
        "Give up what is left of a rotated key's grace, at once, in every process",
        tag="Keys",
        parameters=[_ID],
        answers={204: Answer("Only the current secret opens the key; so is the answer when it was so already.")},
        errors=["NOT_FOUND"],
    )
    def delete(self, request: KeyedRequest, key_id: str) -> Response:
        """Answer 204."""
        with refusals():
            services.end_old_secret(key_id, by=request.principal)
        return Response(status=204)
