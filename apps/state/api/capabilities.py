"""Declared programs: `/v1/capabilities` and, as the reference has it, `POST /capabilities/{name}`."""

from typing import Any

from django.http import HttpResponse

from apps.http.openapi import Answer, describe, path_parameter, ref
from apps.keys.views import KeyedRequest
from apps.state import conditions, inputs, reading
from apps.state.api import described
from apps.state.api.base import StateView, reply
from apps.state.api.views import REPLAYED
from apps.state.services import programs
from feltdb_engine import Record

_TAG = "Capabilities"
_NAME = path_parameter("name", "The program's name.")
_STEPS = [{"op": "search", "collection": "orders", "limit": 20}, {"op": "project", "fields": ["id", "status"]}]
_EXAMPLE = {"name": "find-orders", "steps": _STEPS, "version": 1, "updated_at_ms": 1_700_000_000_000}
_HEADERS = ("FeltDB-Revision", "ETag")


def shape(stored: Record) -> dict[str, Any]:
    """Return a program as every route here gives it."""
    return {
        "name": stored.id,
        "steps": stored.value.get("steps"),
        "version": stored.version,
        "updated_at_ms": stored.updated_at_ms,
    }


class CapabilitiesView(StateView):
    """The namespace's programs."""

    scopes = {"GET": "capabilities:read"}

    @describe(
        "list_capabilities",
        "List declared programs",
        tag=_TAG,
        parameters=[described.LIMIT, described.CURSOR],
        answers={
            200: Answer(
                "A page, by name.",
                ref("CapabilityPage"),
                {"capabilities": [_EXAMPLE], "next_cursor": None},
                described.READ,
            )
        },
        errors=["VALIDATION_ERROR", "INVALID_CURSOR", *described.STORAGE],
    )
    def get(self, request: KeyedRequest) -> HttpResponse:
        """Page through the programs."""
        found = programs.page(self.call(request), inputs.page(request.query_params))
        rows = [shape(each) for each in found.records]
        return reply({"capabilities": rows, "next_cursor": found.next_cursor}, revision=found.revision)


class CapabilityView(StateView):
    """One program."""

    scopes = {"GET": "capabilities:read", "PUT": "capabilities:write", "DELETE": "capabilities:write"}

    @describe(
        "read_capability",
        "Read a declared program",
        tag=_TAG,
        parameters=[_NAME],
        answers={200: Answer("The program.", ref("Capability"), _EXAMPLE, _HEADERS)},
        errors=["NOT_FOUND", "VALIDATION_ERROR", *described.STORAGE],
    )
    def get(self, request: KeyedRequest, name: str) -> HttpResponse:
        """Return the program."""
        found = programs.read(self.call(request), _name(name))
        return reply(shape(found.record), revision=found.revision, version=found.record.version)

    @describe(
        "save_capability",
        "Store a declared program",
        tag=_TAG,
        description="Up to 16 steps, each given what the one before gave; they read and never write.",
        parameters=[_NAME, described.IF_MATCH, described.IF_NONE_MATCH, described.KEY],
        body=ref("Program"),
        body_examples={"orders by text": {"steps": _STEPS}},
        answers={
            200: Answer("Replaced.", ref("Capability"), _EXAMPLE, described.WRITE),
            201: Answer("Stored.", ref("Capability"), _EXAMPLE, described.WRITE),
        },
        errors=["IF_MATCH_FAILED", *described.COMMIT],
    )
    def put(self, request: KeyedRequest, name: str) -> HttpResponse:
        """Store the program."""
        asked = conditions.read(request.headers)
        done = programs.save(self.call(request, write=True), _name(name), request.data, asked)
        return reply(
            shape(done.record),
            status=201 if done.created else 200,
            revision=done.revision,
            version=done.record.version,
            headers=REPLAYED if done.replayed else None,
        )

    @describe(
        "remove_capability",
        "Remove a declared program",
        tag=_TAG,
        parameters=[_NAME, described.IF_MATCH, described.IF_NONE_MATCH, described.KEY],
        answers={204: Answer("Gone.", headers=("FeltDB-Revision", "Idempotent-Replay"))},
        errors=["NOT_FOUND", "IF_MATCH_FAILED", *described.COMMIT],
    )
    def delete(self, request: KeyedRequest, name: str) -> HttpResponse:
        """Remove the program."""
        asked = conditions.read(request.headers)
        gone = programs.remove(self.call(request, write=True), _name(name), asked)
        return reply(status=204, revision=gone.revision, headers=REPLAYED if gone.replayed else None)


class ReferenceCapabilityView(CapabilityView):
    """As the reference stores programs."""

    scopes = {**CapabilityView.scopes, "POST": "capabilities:write"}

    def post(self, request: KeyedRequest, name: str) -> HttpResponse:
        """Store the program, as PUT does."""
        return self.put(request, name)


def _name(segment: str) -> str:
    return reading.record_id(segment, field="name")
