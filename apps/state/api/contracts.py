"""The namespace's contract: `/v1/schema`, and `/v1/application`, which says what there is at a glance."""

from typing import Any

from django.http import HttpResponse

from apps.http.openapi import Answer, describe, ref
from apps.keys.views import KeyedRequest
from apps.state import conditions, shapes
from apps.state.api import described
from apps.state.api.base import StateView, reply
from apps.state.services import contracts, position
from feltdb_engine import ContractReport
from feltdb_engine.contract import parse

_TAG = "Contract"
_CONTRACT: dict[str, Any] = {
    "collections": {
        "customers": {"unique": ["email"], "references": []},
        "orders": {
            "schema": {"type": "object", "required": ["customer"], "properties": {"amount": {"minimum": 0}}},
            "unique": [["shop", "number"]],
            "references": [{"field": "customer", "collection": "customers"}],
        },
    }
}
_INFO = {"revision": 1, "sequence": 120, "contract": _CONTRACT, "pending": None}
_BREACH = {
    "collection": "orders",
    "rule": "schema",
    "fields": [],
    "count": 2,
    "samples": [{"id": "o-1", "pointer": "/amount", "keyword": "minimum", "message": "-1 is less than 0."}],
}
_CHECKED = {
    "valid": True,
    "schema_hash": "9f" * 32,
    "issues": [],
    "complete": True,
    "checked": 10,
    "breaches": [_BREACH],
}


class SchemaView(StateView):
    """The contract in force."""

    scopes = {"GET": "state:read", "PUT": "schema:write"}

    @describe(
        "read_contract",
        "Read the contract",
        tag=_TAG,
        answers={200: Answer("The contract in force.", ref("ContractInfo"), _INFO, ("FeltDB-Revision", "ETag"))},
        errors=described.STORAGE,
    )
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Return the contract, its revision as the entity tag."""
        call = self.call(request)
        at, found = self.position(call), contracts.current(call)
        return reply(shapes.contract(found), revision=at, version=found.revision)

    @describe(
        "activate_contract",
        "Bring a contract into force",
        tag=_TAG,
        description=(
            "In place of the one before. Refused with CONTRACT_BROKEN and a report where stored records break it; "
            "nothing is changed then. It looks at every record, so it may take minutes; others read and write "
            "meanwhile, and what they write is held to both contracts. `If-Match` takes the revision read before, "
            "`If-None-Match: *` means none yet."
        ),
        parameters=[described.IF_MATCH, described.IF_NONE_MATCH],
        body=ref("Contract"),
        body_examples={"customers and their orders": _CONTRACT},
        answers={200: Answer("In force.", ref("ContractInfo"), _INFO, ("FeltDB-Revision", "ETag"))},
        errors=["CONTRACT_INVALID", "CONTRACT_BROKEN", "CONTRACT_CONFLICT", "IF_MATCH_FAILED", *described.COMMIT],
    )
    def put(self, request: KeyedRequest) -> HttpResponse:
        """Activate the contract."""
        call = self.call(request)
        found = contracts.activate(call, request.data, conditions.read(request.headers))
        return reply(shapes.contract(found), revision=self.position(call), version=found.revision)


class SchemaPendingView(StateView):
    """A contract that is being activated."""

    scopes = {"DELETE": "schema:write"}

    @describe(
        "withdraw_contract",
        "Let go of a contract that was left half way",
        tag=_TAG,
        description="For one whose activation died with its process: what is written is held to it until then.",
        answers={204: Answer("Gone.", headers=described.READ)},
        errors=["NOT_FOUND", *described.COMMIT],
    )
    def delete(self, request: KeyedRequest) -> HttpResponse:
        """Withdraw it."""
        call = self.call(request)
        contracts.withdraw(call)
        return reply(status=204, revision=self.position(call))


class SchemaValidateView(StateView):
    """What a contract would mean."""

    scopes = {"POST": "state:read"}

    @describe(
        "check_contract",
        "Ask what a contract would break",
        tag=_TAG,
        description=(
            "Nothing is changed. `valid` says that it is a contract, else `issues` why not; `breaches` which stored "
            "records break it, counted, with samples. Not `complete` where time ran out."
        ),
        body=ref("Contract"),
        body_examples={"customers and their orders": _CONTRACT},
        answers={200: Answer("What it would mean.", ref("ContractCheck"), _CHECKED, described.READ)},
        errors=described.STORAGE,
    )
    def post(self, request: KeyedRequest) -> HttpResponse:
        """Check the contract."""
        call = self.call(request)
        at, found = self.position(call), contracts.check(call, request.data)
        issues = [] if found.fault is None else [{"pointer": found.fault[0], "message": found.fault[1]}]
        report = found.report or ContractReport(complete=True, checked=0, breaches=())
        said = {"valid": not issues, "schema_hash": found.digest, "issues": issues, **shapes.report(report)}
        return reply(said, revision=at)


class ApplicationView(StateView):
    """What there is in the namespace."""

    scopes = {"GET": "state:read"}

    @describe(
        "read_application",
        "Ask what there is in the namespace",
        tag=_TAG,
        answers={
            200: Answer(
                "The namespace, its contract and where its state stands.",
                ref("Application"),
                {
                    "namespace": "default",
                    "instance_id": described.INSTANCE,
                    "revision": 120,
                    "contract": _INFO,
                    "schema_hash": "9f" * 32,
                },
                described.READ,
            )
        },
        errors=described.STORAGE,
    )
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Return namespace, position and contract."""
        call = self.call(request)
        head, found = position.revision(call), contracts.current(call)
        return reply(
            {
                "namespace": call.namespace,
                "instance_id": head.instance_id,
                "revision": head.sequence,
                "contract": shapes.contract(found),
                "schema_hash": parse(found.contract).digest,
            },
            revision=head.sequence,
        )
