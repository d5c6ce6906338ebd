"""`/v1/grants` and `/v1/authorization`: grants over HTTP. Thin: the rules are in `services.py`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.keys import paging
from apps.keys.clock import now_ms
from apps.keys.grants import form, limits, reading, services
from apps.keys.grants.api import inputs, schemas  # noqa: F401  (registers the shapes)
from apps.keys.grants.errors import GrantRefused
from apps.keys.grants.holding import grant_subject
from apps.keys.grants.keyring import shared_ring
from apps.keys.grants.models import IssuedGrant
from apps.keys.permissions import require_scope
from apps.keys.views import KeyedRequest, KeyedView

_TAG = "Grants"
_ID = path_parameter("grant_id", "The grant's id.")
_REFUSED = ["GRANT_INVALID", "GRANT_SCOPE_DENIED", "VALIDATION_ERROR"]
_EXAMPLE: dict[str, Any] = {
    "subject": {"kind": "worker", "id": "w1"},
    "application_id": "default",
    "capabilities": ["workload:claim", "workload:execute"],
    "resources": [{"kind": "RESOURCE_PREFIX", "uri": "flow://default/workloads"}],
    "expires_at_ms": 1_900_000_000_000,
}


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the services' refusals into their codes."""
    try:
        yield
    except GrantRefused as refused:
        raise refused.as_api_error() from refused


class Grants(KeyedView):
    """`GET` and `POST /v1/grants`."""

    scopes = {"GET": None, "POST": "grants:write"}
    max_body_bytes = limits.MAX_BODY_BYTES

    @describe(
        "list_grants",
        "Grants, newest first: one's own, or with grants:write all of the namespace",
        tag=_TAG,
        parameters=[
            query_parameter("subject", "Only grants for this subject, as `kind:id`."),
            query_parameter("live", "`true`: only those neither revoked nor past their end.", {"type": "boolean"}),
            *paging.parameters(default=limits.DEFAULT_PAGE, maximum=limits.MAX_PAGE),
        ],
        answers={200: paging.answer("The grants, each as it is signed.", "grants", ref("SignedGrant"))},
        errors=["INVALID_CURSOR", "VALIDATION_ERROR"],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with a page."""
        asked = request.query_params
        subject, live = asked.get("subject"), asked.get("live") == "true"
        shape = ("grants", request.namespace, subject, int(live))
        page = reading.page(
            request.principal,
            request.namespace,
            below=paging.decode(asked.get("cursor"), *shape),
            limit=paging.read_limit(asked.get("limit"), default=limits.DEFAULT_PAGE, maximum=limits.MAX_PAGE),
            subject=subject,
            live_at_ms=now_ms() if live else None,
        )
        return Response({"grants": [_wire(row) for row in page.rows], "next_cursor": paging.encode(page.below, *shape)})

    @describe(
        "issue_grant",
        "Sign a grant",
        tag=_TAG,
        description="Nobody can give what they do not hold. The grant dies with the key it is issued by.",
        body=ref("NewGrant"),
        body_examples={"for a worker": _EXAMPLE},
        answers={201: Answer("The signed grant.", ref("SignedGrant"))},
        errors=[*_REFUSED, "CONFLICT"],
    )
    def post(self, request: KeyedRequest) -> Response:
        """Answer 201 with the signed grant."""
        now = now_ms()
        with refusals():
            wanted = inputs.read_new(request.data, namespace=request.namespace, now_ms=now)
            row = services.issue(request.principal, tenant_id=request.namespace, now_ms=now, **wanted)
        return Response(_wire(row), status=201)


class OneGrant(KeyedView):
    """`GET /v1/grants/{grant_id}`."""

    scopes = {"GET": None}

    @describe(
        "read_grant",
        "One grant: one's own, or with grants:write any of the namespace",
        tag=_TAG,
        parameters=[_ID],
        answers={200: Answer("The signed grant; a revoked one says so.", ref("SignedGrant"))},
        errors=["NOT_FOUND"],
    )
    def get(self, request: KeyedRequest, grant_id: str) -> Response:
        """Answer 200 with the signed grant."""
        with refusals():
            return Response(_wire(reading.find(grant_id, reader=request.principal, tenant_id=request.namespace)))


class RevokedGrant(KeyedView):
    """`POST /v1/grants/{grant_id}/revoke`."""

    scopes = {"POST": "grants:write"}
    empty_body: ClassVar[Any] = {}

    @describe(
        "revoke_grant",
        "End a grant, and everything delegated from it, at once",
        tag=_TAG,
        parameters=[_ID],
        body={"type": "object", "properties": {"reason": {"type": "string"}}},
        answers={200: Answer("The grant, signed again as revoked; so is the answer when it was.", ref("SignedGrant"))},
        errors=["NOT_FOUND", "VALIDATION_ERROR"],
    )
    def post(self, request: KeyedRequest, grant_id: str) -> Response:
        """Answer 200 with the revoked grant."""
        reason = inputs.read_reason(request.data)
        with refusals():
            row = services.revoke(
                grant_id, request.principal, tenant_id=request.namespace, now_ms=now_ms(), reason=reason
            )
        return Response(_wire(row))


class DelegatedGrant(KeyedView):
    """`POST /v1/grants/{grant_id}/delegate`."""

    scopes = {"POST": "grants:write"}
    max_body_bytes = limits.MAX_BODY_BYTES

    @describe(
        "delegate_grant",
        "Give on what a grant gave: narrower or the same, never wider",
        tag=_TAG,
        description="Only the grant's subject may. The new grant ends with the one it stands on.",
        parameters=[_ID],
        body=ref("DelegatedGrant"),
        answers={201: Answer("The signed grant.", ref("SignedGrant"))},
        errors=[*_REFUSED, "GRANT_DELEGATION_INVALID", "GRANT_EXPIRED", "GRANT_REVOKED", "NOT_FOUND"],
    )
    def post(self, request: KeyedRequest, grant_id: str) -> Response:
        """Answer 201 with the child."""
        with refusals():
            child = inputs.read_child(request.data)
            row = services.delegate(
                grant_id,
                request.principal,
                tenant_id=request.namespace,
                subject=child.subject,
                capabilities=child.capabilities,
                scopes=child.scopes,
                constraints=child.constraints,
                expires_at=child.expires_at,
                grant_id=child.grant_id,
                now_ms=now_ms(),
            )
        return Response(_wire(row), status=201)


class AuthorizationCheck(KeyedView):
    """`POST /v1/authorization/check`. About oneself it takes no scope, about somebody else `grants:write`."""

    scopes = {"POST": None}
    by_body = {"POST": ("grants:write",)}
    max_body_bytes = limits.MAX_BODY_BYTES

    @describe(
        "check_authorization",
        "Would this grant allow this?",
        tag=_TAG,
        description="Answers as the routes of work would, about the present moment. Nothing is stored.",
        body=ref("GrantQuestion"),
        answers={200: Answer("The decision, allowed or not.", ref("GrantDecision"))},
        errors=["GRANT_INVALID", "FORBIDDEN"],
    )
    def post(self, request: KeyedRequest) -> Response:
        """Answer 200 with the decision."""
        with refusals():
            asked = inputs.read_question(request.data)
        me = grant_subject(request.principal)
        if asked.subject not in (None, me):
            for scope in self.by_body["POST"]:
                require_scope(request.principal, scope)
        decision = services.verify(
            asked.grant,
            subject=asked.subject or me,
            tenant_id=request.namespace,
            application_id=asked.application_id,
            capability=asked.capability,
            resource=asked.resource,
            context=asked.context,
            now_ms=now_ms(),
        )
        return Response(asdict(decision))


class AuthorizationKey(KeyedView):
    """`GET /v1/authorization/key`."""

    scopes = {"GET": None}
    namespaced = False

    @describe(
        "read_grant_keys",
        "The public keys that verify grants",
        tag=_TAG,
        answers={200: Answer("The current key and those it replaced.", ref("GrantKeys"))},
    )
    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with the public halves of the ring."""
        ring = shared_ring(now_ms=now_ms())
        keys = [
            {
                "key_id": key.id,
                "public_key": key.public.hex(),
                "created_at_ms": key.created_at_ms,
                "retired_at_ms": key.retired_at_ms,
            }
            for key in ring.keys
        ]
        current = {"key_id": ring.current.id, "public_key": ring.current.public.hex()}
        return Response({"algorithm": form.ALGORITHM, **current, "keys": keys})


def _wire(row: IssuedGrant) -> dict[str, Any]:
    return row.signed().wire()
