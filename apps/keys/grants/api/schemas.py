"""The JSON shapes of grants for the OpenAPI document."""

from apps.http.openapi import Schema, add_schemas, ref
from apps.keys.grants import form, limits

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": limits.MAX_TEXT_CHARS}
_SECONDS: Schema = {"type": "integer", "minimum": 0, "description": "Whole seconds since 1970."}
_OPTIONAL_TEXT: Schema = {"type": ["string", "null"]}
_ATTRIBUTES: Schema = {"type": "object", "additionalProperties": _TEXT, "maxProperties": limits.MAX_NAMED}

SUBJECT: Schema = {
    "type": "object",
    "required": ["kind", "id"],
    "additionalProperties": False,
    "properties": {"kind": {"enum": list(form.SUBJECT_KINDS)}, "id": _TEXT},
}
RESOURCE: Schema = {
    "type": "object",
    "required": ["kind", "uri"],
    "additionalProperties": False,
    "properties": {
        "kind": {
            "enum": list(form.RESOURCE_KINDS),
            "description": "APPLICATION and RESOURCE_PREFIX cover what lies below; every other kind one address.",
        },
        "uri": {"type": "string", "maxLength": limits.MAX_URI_CHARS, "pattern": "^flow://"},
    },
}
CONSTRAINTS: Schema = {
    "type": "object",
    "additionalProperties": False,
    "description": "Under which circumstances the grant holds; what is left out constrains nothing.",
    "properties": {
        "environments": {"type": "array", "items": _TEXT, "maxItems": limits.MAX_NAMED},
        "worker_class": _OPTIONAL_TEXT,
        "network": _OPTIONAL_TEXT,
        "workload_id": _OPTIONAL_TEXT,
        "connection_enabled": {"type": ["boolean", "null"]},
        "minimum_schema_version": {"type": ["integer", "null"], "minimum": 0},
        "subject_attributes": _ATTRIBUTES,
        "resource_attributes": _ATTRIBUTES,
        "context_attributes": _ATTRIBUTES,
    },
}
_CAPABILITIES: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": limits.MAX_CAPABILITIES,
    "uniqueItems": True,
}
_RESOURCES: Schema = {"type": "array", "items": ref("Resource"), "minItems": 1, "maxItems": limits.MAX_RESOURCES}

GRANT: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "contract_version": {"const": form.CONTRACT_VERSION},
        "id": {"type": "string", "maxLength": limits.MAX_ID_CHARS},
        "issuer": ref("GrantSubject"),
        "subject": ref("GrantSubject"),
        "tenant_id": {"type": "string", "description": "The namespace."},
        "application_id": {"type": "string"},
        "capabilities": _CAPABILITIES,
        "resources": _RESOURCES,
        "constraints": ref("GrantConstraints"),
        "issued_at": _SECONDS,
        "expires_at": {**_SECONDS, "description": "Whole seconds since 1970; at this instant it has expired."},
        "parent_grant": {"type": ["string", "null"]},
        "revision": {"type": "integer", "minimum": 0},
        "status": {"enum": list(form.STATUSES)},
    },
}
GRANT["required"] = list(GRANT["properties"])

SIGNED: Schema = {
    "type": "object",
    "required": ["algorithm", "key_id", "grant", "digest", "signature"],
    "additionalProperties": False,
    "properties": {
        "algorithm": {"const": form.ALGORITHM},
        "key_id": {"type": "string"},
        "grant": ref("Grant"),
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "signature": {"type": "string", "pattern": "^[0-9a-f]{128}$"},
    },
}
_GIVEN: Schema = {
    "id": {"type": "string", "description": "Left out: the server makes one."},
    "subject": ref("GrantSubject"),
    "capabilities": _CAPABILITIES,
    "resources": _RESOURCES,
    "constraints": ref("GrantConstraints"),
    "expires_at": _SECONDS,
    "expires_at_ms": {"type": "integer", "description": "The same in milliseconds, rounded down to whole seconds."},
}
NEW: Schema = {
    "type": "object",
    "required": ["subject", "application_id", "capabilities", "resources"],
    "description": "`expires_at` or `expires_at_ms` is needed. Issuer and time of issue are the server's to say.",
    "properties": {**_GIVEN, "application_id": {"type": "string"}, "revision": {"type": "integer", "minimum": 0}},
}
CHILD: Schema = {
    "type": "object",
    "required": ["subject"],
    "additionalProperties": False,
    "description": "What is left out stays the parent's.",
    "properties": _GIVEN,
}
QUESTION: Schema = {
    "type": "object",
    "required": ["grant", "application_id", "capability", "resource"],
    "additionalProperties": False,
    "properties": {
        "grant": ref("SignedGrant"),
        "subject": {**ref("GrantSubject"), "description": "Left out: who asks. Another one needs grants:write."},
        "application_id": {"type": "string"},
        "capability": {"type": "string"},
        "resource": {"type": "string", "description": "An address, `flow://...`."},
        "context": {"type": "object", "description": "The circumstances to assume, as constraints name them."},
    },
}
DECISION: Schema = {
    "type": "object",
    "required": ["allowed", "code", "reason", "grant_id", "decision_id", "request_hash", "decided_at_ms", "policy"],
    "properties": {
        "allowed": {"type": "boolean"},
        "code": {"type": "string", "description": "GRANT_ALLOWED, or the code a route would refuse with."},
        "reason": {"type": "string"},
        "grant_id": {"type": ["string", "null"]},
        "decision_id": {"type": "string"},
        "request_hash": {"type": "string"},
        "decided_at_ms": {"type": "integer"},
        "policy": {"type": "string"},
    },
}
_PUBLIC_KEY: Schema = {
    "type": "object",
    "properties": {
        "key_id": {"type": "string"},
        "public_key": {"type": "string", "description": "32 bytes as hex."},
        "created_at_ms": {"type": "integer"},
        "retired_at_ms": {"type": ["integer", "null"], "description": "Since then it only verifies."},
    },
}
PUBLIC_KEYS: Schema = {
    "type": "object",
    "required": ["algorithm", "key_id", "public_key", "keys"],
    "properties": {
        "algorithm": {"const": form.ALGORITHM},
        "key_id": {"type": "string", "description": "The key that signs now."},
        "public_key": {"type": "string"},
        "keys": {"type": "array", "items": _PUBLIC_KEY},
    },
}

add_schemas(
    {
        "GrantSubject": SUBJECT,
        "Resource": RESOURCE,
        "GrantConstraints": CONSTRAINTS,
        "Grant": GRANT,
        "SignedGrant": SIGNED,
        "NewGrant": NEW,
        "DelegatedGrant": CHILD,
        "GrantQuestion": QUESTION,
        "GrantDecision": DECISION,
        "GrantKeys": PUBLIC_KEYS,
    }
)
