"""The shapes of this room's bodies and answers, as JSON Schema for the OpenAPI document.

`inputs.py` and `shapes.py` are the code for the same shapes; `tests/state/test_openapi.py` holds them together.
"""

from typing import Any

from apps.http.openapi import add_schemas, ref

Schema = dict[str, Any]

COLLECTION: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$",
    "description": "1 to 128 letters, digits, `_`, `.` and `-`, beginning with a letter, a digit or `_`.",
}
RECORD_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "description": "1 to 256 bytes of UTF-8 without control characters; not `.` or `..`.",
}
INTEGER: Schema = {"type": "integer", "minimum": 0}
CURSOR: Schema = {"type": ["string", "null"], "description": "Opaque; where to go on from, null at the end."}
VERSION: Schema = {**INTEGER, "description": "1 on the first insert, one more on every later write."}
VALUE: Schema = {"type": "object", "additionalProperties": True, "description": "Any JSON object."}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
        **more,
    }


def _array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


_OP: Schema = {"enum": ["identity", "search", "filter_eq", "project", "limit"]}
_PART: Schema = {"type": ["object", "null"], "description": "The contract's part about it, null for none."}
_NULLABLE: Schema = {"type": ["string", "null"]}

SCHEMAS: dict[str, Schema] = {
    "Record": _object(
        {
            "id": RECORD_ID,
            "key": {"type": "string", "description": "`collection:id`."},
            "version": VERSION,
            "sequence": {**INTEGER, "description": "That of the record's last write in the feed."},
            "updated_at_ms": {**INTEGER, "description": "Milliseconds since the epoch."},
            "value": VALUE,
        }
    ),
    "RecordPage": _object({"records": _array(ref("Record")), "next_cursor": CURSOR}),
    "CollectionPage": _object(
        {
            "collections": _array(
                _object({"name": COLLECTION, "records": INTEGER, "indexes": _array(ref("Index")), "contract": _PART})
            ),
            "next_cursor": CURSOR,
        }
    ),
    "Index": _object(
        {
            "name": {"type": "string"},
            "fields": _array({"type": "string"}, description="Dotted paths, in the order they sort by."),
            "complete": {"type": "boolean", "description": "Whether queries use it yet."},
        }
    ),
    "NewIndex": _object({"fields": _array({"type": "string", "minLength": 1}, minItems=1, maxItems=4)}),
    "NewRecord": {
        "type": "object",
        "properties": {"id": RECORD_ID},
        "additionalProperties": True,
        "description": "The value. A member `id` names the record and is not stored; without one a UUID is made.",
    },
    "Swap": _object(
        {
            "expectedVersion": {**INTEGER, "description": "The version the record must have; 0 for none yet."},
            "value": VALUE,
        }
    ),
    "Swapped": _object({"updated": {"const": True}, "currentVersion": VERSION, "item": ref("Record")}),
    "Operation": _object(
        {
            "sequence": INTEGER,
            "instance_id": {"type": "string"},
            "transaction_id": _NULLABLE,
            "kind": {"enum": ["insert", "update", "delete"]},
            "collection": COLLECTION,
            "id": RECORD_ID,
            "key": {"type": "string"},
            "version": VERSION,
            "previous_version": INTEGER,
            "value": {**VALUE, "description": "The whole value after it; of a delete, the value it removed."},
            "content_hash": {"type": "string", "description": "SHA-256 over all that the operation says."},
            "at_ms": INTEGER,
            "actor": ref("Actor"),
        }
    ),
    "Actor": _object(
        {
            "subject": {**_NULLABLE, "description": "`service:...`, `worker:...` or `human:...`."},
            "key_id": _NULLABLE,
            "request_id": _NULLABLE,
            "workload_id": _NULLABLE,
            "trigger_id": _NULLABLE,
            "traceparent": {**_NULLABLE, "description": "That of the request, as W3C Trace Context has it."},
        }
    ),
    "Changes": _object(
        {
            "operations": _array(ref("Operation")),
            "cursor": {"type": "string", "description": "What `after` takes to go on from here."},
            "head": {**INTEGER, "description": "The sequence of the newest durable operation."},
            "floor": {**INTEGER, "description": "The newest sequence that is no longer kept; 0 while everything is."},
        },
        {
            "rewound_from": {
                **INTEGER,
                "description": "Only where the namespace was restored to before `after`: the sequence that named.",
            }
        },
    ),
    "Transaction": _object(
        {"operations": _array(ref("TransactionOperation"), minItems=1, maxItems=10_000)},
        {
            "transactionId": {
                "type": "string",
                "minLength": 1,
                "maxLength": 128,
                "description": "Makes the request repeatable; made by the server if left out.",
            },
            "preconditions": _array(ref("Precondition"), maxItems=10_000),
            "fences": _array(
                {
                    "description": "A token of a read basis, or the whole answer that gave it.",
                    "anyOf": [
                        {"type": "string"},
                        {"type": "object", "required": ["token"], "properties": {"token": {"type": "string"}}},
                    ],
                },
                maxItems=16,
            ),
        },
    ),
    "TransactionOperation": _object(
        {"collection": COLLECTION, "id": RECORD_ID},
        {
            "value": VALUE,
            "merge": {**VALUE, "description": "A merge patch (RFC 7396) on a record that is there."},
            "delete": {"type": "boolean", "description": "As is an operation without value and merge."},
            "requireAbsent": {"type": "boolean"},
            "expectedVersion": INTEGER,
        },
    ),
    "Precondition": _object(
        {"collection": COLLECTION, "id": RECORD_ID},
        {
            "requireAbsent": {"type": "boolean"},
            "requirePresent": {"type": "boolean"},
            "expectedVersion": INTEGER,
            "pointer": {"type": "string", "description": "JSON pointer (RFC 6901) into the value, with `equals`."},
            "equals": {"description": "What must be there; `1` and `1.0` differ."},
        },
    ),
    "Outcome": _object(
        {
            "transactionId": _NULLABLE,
            "baseRevision": INTEGER,
            "commitRevision": INTEGER,
            "status": {"const": "committed"},
            "duplicate": {"type": "boolean", "description": "Whether this repeats an earlier answer."},
            "operationIds": _array({"type": "string"}),
        }
    ),
    "Condition": {
        "description": "A tree of conditions. The reference's `{field, eq: value}` is understood as well.",
        "oneOf": [
            _object(
                {
                    "field": {"type": "string", "description": "A path through objects, with dots."},
                    "op": {"enum": ["eq", "ne", "lt", "lte", "gt", "gte", "in", "contains", "starts_with", "exists"]},
                },
                {"value": {}},
            ),
            _object({"all": _array(ref("Condition"))}),
            _object({"any": _array(ref("Condition"))}),
            _object({"not": ref("Condition")}),
            {"type": "object", "required": ["field"], "minProperties": 2, "maxProperties": 2},
        ],
    },
    "Query": _object(
        {"collection": COLLECTION},
        {
            "where": {"anyOf": [ref("Condition"), _array(ref("Condition"), maxItems=100), {"type": "null"}]},
            "orderBy": _array(
                _object({"field": {"type": "string"}}, {"direction": {"enum": ["asc", "desc"]}}), maxItems=8
            ),
            "limit": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
            "cursor": {"type": ["string", "null"]},
            "select": _array({"type": "string"}, maxItems=64, description="Paths to keep of each value."),
            "count": {"type": "boolean", "description": "How many match in all; with `limit` 0, nothing else."},
            "asOf": {**INTEGER, "description": "An earlier revision to ask about, as far back as the feed goes."},
        },
    ),
    "Search": _object(
        {"query": {"type": "string", "minLength": 1, "maxLength": 512}},
        {
            "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
            "cursor": {"type": ["string", "null"]},
        },
    ),
    "QueryResult": _object(
        {
            "records": _array(ref("Record")),
            "next_cursor": CURSOR,
            "exhausted": {"type": "boolean"},
            "plan": {"type": "object", "additionalProperties": True, "description": "How the records were found."},
        },
        {"count": {**INTEGER, "description": "How many match in all, where that was asked."}},
    ),
    "NewBasis": _object(
        {},
        {
            "records": _array(_object({"collection": COLLECTION, "id": RECORD_ID}), maxItems=1000),
            "predicates": _array(
                _object(
                    {"collection": COLLECTION},
                    {"where": {"anyOf": [ref("Condition"), _array(ref("Condition"), maxItems=100), {"type": "null"}]}},
                ),
                maxItems=16,
            ),
        },
        description="At least one of either.",
    ),
    "Basis": _object(
        {
            "token": {"type": "string", "description": "What `fences` of a transaction takes."},
            "revision": INTEGER,
            "records": _array({"anyOf": [ref("Record"), {"type": "null"}]}, description="In the order asked."),
        }
    ),
    "Program": _object(
        {"steps": _array({"type": "object", "required": ["op"], "properties": {"op": _OP}}, minItems=1, maxItems=16)}
    ),
    "Capability": _object(
        {
            "name": {"type": "string"},
            "steps": _array({"type": "object"}),
            "version": VERSION,
            "updated_at_ms": INTEGER,
        }
    ),
    "CapabilityPage": _object({"capabilities": _array(ref("Capability")), "next_cursor": CURSOR}),
    "ImportLine": _object(
        {
            "import_id": {"type": "string", "description": "The Idempotency-Key, or one made here."},
            "rows": {**INTEGER, "description": "The number of the last row that is in."},
            "records": INTEGER,
            "batches": INTEGER,
            "repeated": {**INTEGER, "description": "Batches that had been in before, under this import id."},
            "revision": INTEGER,
        },
        {"complete": {"const": True}, "row": INTEGER, "error": ref("Error")},
    ),
    "Contract": {
        "type": "object",
        "required": ["collections"],
        "properties": {
            "collections": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "schema": {"description": "JSON Schema 2020-12 of every value."},
                        "unique": _array({}, description="Fields, or lists of fields that are unique together."),
                        "references": _array(
                            {"type": "object", "properties": {"field": {"type": "string"}, "collection": COLLECTION}},
                            description="Fields that name a record of a collection by its id.",
                        ),
                    },
                },
            }
        },
    },
    "ContractInfo": _object(
        {
            "revision": {**INTEGER, "description": "How many contracts there have been; 0 for never one."},
            "sequence": {**INTEGER, "description": "Since which position it is in force."},
            "contract": ref("Contract"),
            "pending": {"anyOf": [ref("Contract"), {"type": "null"}], "description": "Being activated just now."},
        }
    ),
    "ContractCheck": _object(
        {
            "valid": {"type": "boolean"},
            "schema_hash": {**_NULLABLE, "description": "SHA-256 of its one form."},
            "issues": _array(_object({"pointer": {"type": "string"}, "message": {"type": "string"}})),
            "complete": {"type": "boolean"},
            "checked": {**INTEGER, "description": "Records looked at."},
            "breaches": _array(ref("Breaches")),
        }
    ),
    "Breaches": _object(
        {
            "collection": COLLECTION,
            "rule": {"enum": ["schema", "unique", "reference"]},
            "fields": _array({"type": "string"}),
            "count": {**INTEGER, "description": "How many records break the rule."},
            "samples": _array(
                _object(
                    {
                        "id": RECORD_ID,
                        "pointer": {"type": "string"},
                        "keyword": {"type": "string"},
                        "message": {"type": "string"},
                    }
                ),
                description="The first of them.",
            ),
        }
    ),
    "Application": _object(
        {
            "namespace": {"type": "string"},
            "instance_id": {"type": "string"},
            "revision": INTEGER,
            "contract": ref("ContractInfo"),
            "schema_hash": {"type": "string"},
        }
    ),
    "History": _object({"operations": _array(ref("Operation")), "next_cursor": CURSOR}),
    "Provenance": _object(
        {
            "sequence": INTEGER,
            "instance_id": {"type": "string"},
            "transaction_id": _NULLABLE,
            "kind": {"enum": ["insert", "update", "delete"]},
            "collection": COLLECTION,
            "id": RECORD_ID,
            "key": {"type": "string"},
            "version": VERSION,
            "content_hash": {"type": "string", "description": "SHA-256 over all that the operation says."},
            "at_ms": INTEGER,
            "actor": ref("Actor"),
        }
    ),
    "Revision": _object(
        {"revision": INTEGER, "scope": {"type": "string"}, "cursor": {"type": "string"}},
    ),
    "Runtime": _object(
        {
            "namespace": {"type": "string"},
            "instance_id": {"type": "string"},
            "store_id": {"type": "string"},
            "protocol_version": {"const": 1},
            "revision": INTEGER,
            "cursor": {"type": "string"},
            "floor": INTEGER,
            "storage": {"enum": ["clean", "recovered-incomplete-write", "failed", "rebuilding"]},
            "durable_format": INTEGER,
            "features": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "limits": {"type": "object", "additionalProperties": INTEGER},
        }
    ),
}

add_schemas(SCHEMAS)
