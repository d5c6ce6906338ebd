"""`/v1/keys`: keys over HTTP. Thin: the rules are in `services.py`."""

from collections.abc import Iterator
from contextlib import contextmanager

from rest_framework.response import Response

from apps.http.errors import ApiError
from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.keys import services, shapes
from apps.keys.api.schemas import read_new_key
from apps.keys.clock import utc_now
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
    except services.KeyInvalid as refused:
        field = "expires_at_ms" if refused.field == "expires_at" else refused.field
        raise ApiError("VALIDATION_ERROR", f"{refused}.", details={"field": field}) from refused
    except services.KeyDenied as refused:
        raise ApiError("FORBIDDEN", f"{refused}.", reason="PRIVILEGE_ESCALATION_DENIED") from refused
    except services.KeyNotFound as refused:
        raise ApiError("NOT_FOUND", "There is no such key.") from refused


class CurrentKey(KeyedView):
    """`GET /v1/keys/current`."""

    scopes = {"GET": None}
    namespaced = False

    @describe("read_current_key", "The key that asks", tag="Keys", answers={200: Answer("The key.", ref("Key"))})
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with the key's summary."""
        return Response(shapes.summary(ApiKey.objects.get(pk=request.principal.key_id)))


class Keys(KeyedView):
    """`GET` and `POST /v1/keys`."""

    scopes = {"GET": "keys:admin", "POST": "keys:admin"}
    namespaced = False

    @describe(
        "list_keys",
        "Keys, newest first; never their secrets",
        tag="Keys",
        parameters=[
            query_parameter("namespace", "Only keys that open this namespace."),
            query_parameter("limit", "1 to 1000; 100 when left out.", {"type": "integer"}),
            query_parameter("cursor", "The `next_cursor` of the page before."),
        ],
        answers={
            200: Answer(
                "The keys all of whose namespaces the caller may enter.",
                {
                    "type": "object",
                    "properties": {
                        "keys": {"type": "array", "items": ref("Key")},
                        "next_cursor": {"type": ["string", "null"]},
                    },
                },
            )
        },
        errors=["INVALID_CURSOR", "VALIDATION_ERROR"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with a page."""
        asked = request.query_params
        try:
            page = services.list_keys(
                reader=request.principal,
                now=utc_now(),
                namespace=asked.get("namespace") or None,
                after=asked.get("cursor") or None,
                limit=_limit(asked.get("limit")),
            )
        except services.KeyNotFound as refused:
            raise ApiError("INVALID_CURSOR", "The cursor is not one of this list.") from refused
        return Response({"keys": [shapes.summary(key) for key in page.keys], "next_cursor": page.next_after})

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
        answers={200: Answer("The key.", ref("Key"))},
        errors=["NOT_FOUND"],
    )
    def get(self, request: KeyedRequest, key_id: str) -> Response:
        """Answer 200 with the key's summary."""
        with refusals():
            return Response(shapes.summary(services.get_key(key_id, reader=request.principal)))

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


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_PAGE
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_PAGE):
        raise ApiError("VALIDATION_ERROR", f"limit: send 1 to {MAX_PAGE}.", details={"field": "limit"})
    return int(text)
