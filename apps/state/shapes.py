"""The JSON shapes of this room's answers, made from the engine's values.

Not here: what they mean (`feltdb_engine/model.py`).
"""

from typing import Any

from apps.state.services.position import Collection, Runtime
from apps.state.services.queries import Found
from feltdb_engine import (
    Actor,
    Changes,
    CommitResult,
    ContractInfo,
    ContractReport,
    IndexInfo,
    Operation,
    ReadBasis,
    Record,
)

NOT_PROVENANCE = frozenset({"value", "previous_version"})


def record(found: Record) -> dict[str, Any]:
    """Return a record as every route gives it."""
    return {
        "id": found.id,
        "key": found.key,
        "version": found.version,
        "sequence": found.sequence,
        "updated_at_ms": found.updated_at_ms,
        "value": found.value,
    }


def collection(found: Collection) -> dict[str, Any]:
    """Return a collection as the list of them gives it."""
    return {
        "name": found.name,
        "records": found.records,
        "indexes": [index(each) for each in found.indexes],
        "contract": found.contract,
    }


def index(found: IndexInfo) -> dict[str, Any]:
    """Return a declared index; queries use it once it is complete."""
    return {"name": found.name, "fields": list(found.fields), "complete": found.complete}


def found(result: Found) -> dict[str, Any]:
    """Return a page of what matches; `count` is there where it was asked for."""
    page = {
        "records": [record(each) for each in result.records],
        "next_cursor": result.next_cursor,
        "exhausted": result.exhausted,
        "plan": result.plan,
    }
    return page if result.count is None else {**page, "count": result.count}


def basis(found: ReadBasis) -> dict[str, Any]:
    """Return a read basis; an absent record is null."""
    records = [None if each is None else record(each) for each in found.records]
    return {"token": found.token, "revision": found.revision, "records": records}


def contract(found: ContractInfo) -> dict[str, Any]:
    """Return the contract in force; `pending` is one that is being activated, held to as well."""
    return {
        "revision": found.revision,
        "sequence": found.sequence,
        "contract": found.contract,
        "pending": found.pending,
    }


def report(found: ContractReport) -> dict[str, Any]:
    """Return what stored records break."""
    return {
        "complete": found.complete,
        "checked": found.checked,
        "breaches": [
            {
                "collection": each.collection,
                "rule": each.rule,
                "fields": list(each.fields),
                "count": each.count,
                "samples": [
                    {"id": one.id, "pointer": one.pointer, "keyword": one.keyword, "message": one.message}
                    for one in each.samples
                ],
            }
            for each in found.breaches
        ],
    }


def provenance(change: Operation) -> dict[str, Any]:
    """Return what a record owes its present state to: the operation without its value."""
    return {name: value for name, value in operation(change).items() if name not in NOT_PROVENANCE}


def operation(change: Operation) -> dict[str, Any]:
    """Return one change as the feed gives it."""
    return {
        "sequence": change.sequence,
        "instance_id": change.instance_id,
        "transaction_id": change.transaction_id,
        "kind": change.kind,
        "collection": change.collection,
        "id": change.id,
        "key": change.key,
        "version": change.version,
        "previous_version": change.previous_version,
        "value": change.value,
        "content_hash": change.content_hash,
        "at_ms": change.at_ms,
        "actor": actor(change.actor),
    }


def changes(found: Changes) -> dict[str, Any]:
    """Return a page of the feed; `rewound_from` is there only where the cursor lay beyond what was kept of it."""
    page = {
        "operations": [operation(each) for each in found.operations],
        "cursor": str(found.cursor),
        "head": found.head,
        "floor": found.floor,
    }
    return page if found.rewound_from is None else {**page, "rewound_from": found.rewound_from}


def actor(who: Actor) -> dict[str, str | None]:
    """Return who caused a change; every member is there, null where there is nothing to say."""
    return {
        "subject": who.subject,
        "key_id": who.key_id,
        "request_id": who.request_id,
        "workload_id": who.workload_id,
        "trigger_id": who.trigger_id,
        "traceparent": who.traceparent,
    }


def outcome(result: CommitResult) -> dict[str, Any]:
    """Return what a transaction did, with the reference's member names."""
    return {
        "transactionId": result.transaction_id,
        "baseRevision": result.base_revision,
        "commitRevision": result.revision,
        "status": "committed",
        "duplicate": result.duplicate,
        "operationIds": [f"operation:{result.instance_id}:{sequence}" for sequence in result.sequences],
    }


def runtime(found: Runtime) -> dict[str, Any]:
    """Return what a client may want to know before it starts."""
    health = found.health
    return {
        "namespace": found.namespace,
        "instance_id": health.instance_id,
        "store_id": health.store_id,
        "protocol_version": 1,
        "revision": found.head.sequence,
        "cursor": str(found.head),
        "floor": health.floor,
        "storage": health.storage,
        "durable_format": health.durable_format,
        "features": {name: True for name in found.features},
        "limits": {
            "page": found.max_page,
            "wait_s": found.max_wait_s,
            "mutations": found.max_mutations,
            "transaction_bytes": found.max_transaction_bytes,
            "streams_of_a_process": found.streams,
            "stream_life_s": found.stream_life_s,
            "requests_a_second": found.rate,
        },
    }
