"""The base of this room's views: the caller as a `Call`, names from the path, answers as bytes.

Hot routes: what DRF would negotiate or serialise is skipped; `reply` renders once. Not here: any operation.
"""

import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from apps.http import budget, strict_json, trace
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import inputs, reading
from apps.state.calls import Call
from apps.state.conditions import entity_tag
from apps.state.limits import RECORD_BODY_BYTES
from apps.state.services import position
from feltdb_engine import Actor


class StateView(KeyedView):
    """A view of this room."""

    max_body_bytes = RECORD_BODY_BYTES
    path_fields = {"record": "id", "transaction": "id"}

    @staticmethod
    def call(request: KeyedRequest, *, write: bool = False) -> Call:
        """Return who asks, where, and until when. A write takes its transaction id from `Idempotency-Key`."""
        principal = request.principal
        return Call(
            namespace=request.namespace,
            actor=Actor(
                subject=principal.label,
                key_id=principal.key_id or None,
                request_id=request.request_id,
                traceparent=trace.parent(request.META),
            ),
            now_ms=time.time_ns() // 1_000_000,
            deadline=budget.deadline(settings.REQUEST_DEADLINE_MS / 1000),
            transaction_id=inputs.transaction_id(request.headers) if write else None,
            collections=principal.collections,
            require_still_held=request.require_still_held,
        )

    @property
    def writes(self) -> bool:
        """Tell whether the request is a write of the store: its refusal says whether it may have happened."""
        return (self.scopes.get(str(self.request.method)) or "").endswith(":write")

    @staticmethod
    def position(call: Call) -> int:
        """Return the position of the state: taken before a read, the answer shows everything up to it."""
        return position.revision(call).sequence


def names(collection: str, record: str) -> tuple[str, str]:
    """Return collection and record id from the path."""
    return collection_in(collection), reading.record_id(record, field="id")


def collection_in(segment: str) -> str:
    """Return the collection from the path."""
    return reading.collection_name(segment, field="collection")


def reply(
    data: Any = None,
    *,
    status: int = 200,
    revision: int | None = None,
    version: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Return `data` as JSON (no body for None) with the state's position and the record's version in the headers."""
    answer = HttpResponse(
        b"" if data is None else strict_json.dumps(data), status=status, content_type="application/json"
    )
    if data is None:
        del answer.headers["Content-Type"]
    if revision is not None:
        answer.headers["FeltDB-Revision"] = str(revision)
    if version is not None:
        answer.headers["ETag"] = entity_tag(version)
    if headers:
        for name, value in headers.items():
            answer.headers[name] = value
    return answer
