"""What a grant is, and the one byte form that is signed.

    signed bytes   compact JSON, UTF-8, members in exactly this order, nulls written:
        contract_version id issuer{kind id} subject{kind id} tenant_id application_id
        capabilities[..sorted] resources[{kind uri}..as given] constraints{
            environments[..sorted] worker_class network workload_id connection_enabled minimum_schema_version
            subject_attributes{..sorted} resource_attributes{..sorted} context_attributes{..sorted}}
        issued_at expires_at parent_grant revision status

    signed grant   {"algorithm": "ED25519-V1", "key_id", "grant", "digest", "signature"}
        digest     SHA-256 of the signed bytes, 64 lower-case hex digits
        signature  Ed25519 over the signed bytes, 128 lower-case hex digits

Instants are whole seconds since 1970, since they are part of the signed form. Sorted means by UTF-8 bytes. Reading
is strict: another member, type or version is refused, never guessed; so bytes that verify have one reading.
Not here: whether a well-formed grant holds (`checking.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from apps.keys.grants import limits
from apps.keys.grants.errors import GrantInvalid

CONTRACT_VERSION = 1
ALGORITHM = "ED25519-V1"
SUBJECT_KINDS = ("human", "service", "workload", "agent", "connection", "worker")
RESOURCE_KINDS = ("APPLICATION", "COLLECTION", "RESOURCE", "RESOURCE_PREFIX", "WORKLOAD", "CONNECTION", "ARTIFACT")
STATUSES = ("ACTIVE", "REVOKED", "EXPIRED", "SUPERSEDED")

_ID = re.compile(rf"[A-Za-z0-9_.:@-]{{1,{limits.MAX_ID_CHARS}}}")
_CAPABILITY = re.compile(r"[a-z][a-z0-9_.:-]{0,127}")
_HEX_64 = re.compile(r"[0-9a-f]{64}")
_HEX_128 = re.compile(r"[0-9a-f]{128}")
_MAX_INSTANT = 253_402_300_799  # the last second of the year 9999
_MAX_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class GrantSubject:
    """Who gives or is given authority: a kind of `SUBJECT_KINDS` and an id."""

    kind: str
    id: str

    def wire(self) -> dict[str, Any]:
        """Return the members in signing order."""
        return {"kind": self.kind, "id": self.id}


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of `RESOURCE_KINDS` and an address; what it covers is `resources.covers`."""

    kind: str
    uri: str

    def wire(self) -> dict[str, Any]:
        """Return the members in signing order."""
        return {"kind": self.kind, "uri": self.uri}


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraints:
    """Under which circumstances a grant holds. Empty and None constrain nothing."""

    environments: frozenset[str] = frozenset()
    worker_class: str | None = None
    network: str | None = None
    workload_id: str | None = None
    connection_enabled: bool | None = None
    minimum_schema_version: int | None = None
    subject_attributes: Mapping[str, str] = field(default_factory=dict)
    resource_attributes: Mapping[str, str] = field(default_factory=dict)
    context_attributes: Mapping[str, str] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the members in signing order."""
        return {
            "environments": sorted(self.environments),
            "worker_class": self.worker_class,
            "network": self.network,
            "workload_id": self.workload_id,
            "connection_enabled": self.connection_enabled,
            "minimum_schema_version": self.minimum_schema_version,
            "subject_attributes": dict(sorted(self.subject_attributes.items())),
            "resource_attributes": dict(sorted(self.resource_attributes.items())),
            "context_attributes": dict(sorted(self.context_attributes.items())),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """One statement of authority. `issued_at` and `expires_at` are whole seconds; the end is exclusive."""

    id: str
    issuer: GrantSubject
    subject: GrantSubject
    tenant_id: str
    application_id: str
    capabilities: frozenset[str]
    resources: tuple[Resource, ...]
    constraints: Constraints
    issued_at: int
    expires_at: int
    parent_grant: str | None = None
    revision: int = 1
    status: str = "ACTIVE"
    contract_version: int = CONTRACT_VERSION

    def wire(self) -> dict[str, Any]:
        """Return the members in signing order."""
        return {
            "contract_version": self.contract_version,
            "id": self.id,
            "issuer": self.issuer.wire(),
            "subject": self.subject.wire(),
            "tenant_id": self.tenant_id,
            "application_id": self.application_id,
            "capabilities": sorted(self.capabilities),
            "resources": [resource.wire() for resource in self.resources],
            "constraints": self.constraints.wire(),
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "parent_grant": self.parent_grant,
            "revision": self.revision,
            "status": self.status,
        }

    def signed_bytes(self) -> bytes:
        """Return the one byte form that is signed."""
        return orjson.dumps(self.wire())


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedGrant:
    """A grant with its signature. Being one of these says that it is well formed, not that it verifies."""

    grant: Grant
    key_id: str
    digest: str
    signature: str
    algorithm: str = ALGORITHM

    def wire(self) -> dict[str, Any]:
        """Return the members as JSON has them."""
        return {
            "algorithm": self.algorithm,
            "key_id": self.key_id,
            "grant": self.grant.wire(),
            "digest": self.digest,
            "signature": self.signature,
        }


def read_signed(value: Any) -> SignedGrant:
    """Return the signed grant that a JSON value is. Raises GrantInvalid, and nothing else, for everything it is not."""
    if isinstance(value, SignedGrant):
        return value
    members = _object(value, "grant", ("algorithm", "key_id", "grant", "digest", "signature"))
    if members["algorithm"] != ALGORITHM:
        raise GrantInvalid(f"the algorithm must be {ALGORITHM}", field="algorithm")
    return SignedGrant(
        key_id=_matching(members["key_id"], _ID, "key_id"),
        grant=read_grant(members["grant"]),
        digest=_matching(members["digest"], _HEX_64, "digest"),
        signature=_matching(members["signature"], _HEX_128, "signature"),
    )


def read_grant(value: Any) -> Grant:
    """Return the grant that a JSON value is. Raises GrantInvalid."""
    members = _object(
        value,
        "grant",
        (
            *("contract_version", "id", "issuer", "subject", "tenant_id", "application_id", "capabilities"),
            *("resources", "constraints", "issued_at", "expires_at", "parent_grant", "revision", "status"),
        ),
    )
    version = _integer(members["contract_version"], "contract_version", _MAX_COUNT)
    if version != CONTRACT_VERSION:
        raise GrantInvalid(f"the contract version must be {CONTRACT_VERSION}", field="contract_version")
    parent = members["parent_grant"]
    return Grant(
        contract_version=version,
        id=read_id(members["id"], "id"),
        issuer=read_subject(members["issuer"], "issuer"),
        subject=read_subject(members["subject"], "subject"),
        tenant_id=read_id(members["tenant_id"], "tenant_id"),
        application_id=read_application(members["application_id"]),
        capabilities=read_capabilities(members["capabilities"]),
        resources=read_resources(members["resources"]),
        constraints=read_constraints(members["constraints"]),
        issued_at=_integer(members["issued_at"], "issued_at", _MAX_INSTANT),
        expires_at=_integer(members["expires_at"], "expires_at", _MAX_INSTANT),
        parent_grant=None if parent is None else read_id(parent, "parent_grant"),
        revision=_integer(members["revision"], "revision", _MAX_COUNT),
        status=_one_of(members["status"], STATUSES, "status"),
    )


def read_id(value: Any, field: str) -> str:
    """Return an identifier: 1 to 128 of A-Z a-z 0-9 _ . : @ -"""
    return _matching(value, _ID, field)


def is_id(value: str) -> bool:
    """Tell whether the text has the form of an identifier; nothing else is ever looked for."""
    return _ID.fullmatch(value) is not None


def read_application(value: Any) -> str:
    """Return an application's id: printable text, as work and triggers have it."""
    return _text(value, "application_id", limits.MAX_ID_CHARS)


def read_capability(value: Any, field: str = "capability") -> str:
    """Return the name of a capability. Names are literal: there is no wildcard."""
    return _matching(value, _CAPABILITY, field)


def read_subject(value: Any, field: str) -> GrantSubject:
    """Return the subject that a JSON value is."""
    members = _object(value, field, ("kind", "id"))
    return GrantSubject(_one_of(members["kind"], SUBJECT_KINDS, f"{field}.kind"), _text(members["id"], f"{field}.id"))


def read_capabilities(value: Any) -> frozenset[str]:
    """Return the set of capabilities, at least one."""
    names = _list(value, "capabilities", limits.MAX_CAPABILITIES, at_least=1)
    return _distinct([read_capability(name, "capabilities") for name in names], "capabilities")


def read_resources(value: Any) -> tuple[Resource, ...]:
    """Return the resources in their order, at least one."""
    items = _list(value, "resources", limits.MAX_RESOURCES, at_least=1)
    members = [_object(item, "resources", ("kind", "uri")) for item in items]
    return tuple(
        Resource(
            _one_of(item["kind"], RESOURCE_KINDS, "resources.kind"),
            _text(item["uri"], "resources.uri", limits.MAX_URI_CHARS),
        )
        for item in members
    )


def read_constraints(value: Any, *, partial: bool = False) -> Constraints:
    """Return the constraints; with `partial`, members left out constrain nothing."""
    none = Constraints().wire()
    if partial and isinstance(value, Mapping):
        value = {**none, **value}
    members = _object(value, "constraints", tuple(none))
    enabled = members["connection_enabled"]
    if enabled is not None and not isinstance(enabled, bool):
        raise GrantInvalid("connection_enabled is true, false or null", field="constraints.connection_enabled")
    minimum = members["minimum_schema_version"]
    environments = _list(members["environments"], "constraints.environments", limits.MAX_NAMED)
    return Constraints(
        environments=_distinct(
            [_text(name, "constraints.environments") for name in environments], "constraints.environments"
        ),
        worker_class=_optional_text(members, "worker_class"),
        network=_optional_text(members, "network"),
        workload_id=_optional_text(members, "workload_id"),
        connection_enabled=enabled,
        minimum_schema_version=None if minimum is None else _integer(minimum, "minimum_schema_version", _MAX_COUNT),
        subject_attributes=_attributes(members, "subject_attributes"),
        resource_attributes=_attributes(members, "resource_attributes"),
        context_attributes=_attributes(members, "context_attributes"),
    )


def _object(value: Any, field: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise GrantInvalid("send an object", field=field)
    missing = [name for name in names if name not in value]
    if missing:
        raise GrantInvalid(f"the member {missing[0]} is missing", field=field)
    if len(value) > len(names):
        raise GrantInvalid(f"only these members belong here: {', '.join(names)}", field=field)
    return value


def _list(value: Any, field: str, at_most: int, *, at_least: int = 0) -> list[Any]:
    if not isinstance(value, list) or not at_least <= len(value) <= at_most:
        raise GrantInvalid(f"send a list of {at_least} to {at_most}", field=field)
    return value


def _distinct(values: list[str], field: str) -> frozenset[str]:
    if len(set(values)) != len(values):
        raise GrantInvalid("name each only once", field=field)
    return frozenset(values)


def _attributes(members: Mapping[str, Any], name: str) -> dict[str, str]:
    field = f"constraints.{name}"
    value = members[name]
    if not isinstance(value, Mapping) or len(value) > limits.MAX_NAMED:
        raise GrantInvalid(f"send an object of at most {limits.MAX_NAMED} members", field=field)
    return {_text(key, field): _text(item, field) for key, item in value.items()}


def _optional_text(members: Mapping[str, Any], name: str) -> str | None:
    return None if members[name] is None else _text(members[name], f"constraints.{name}")


def _text(value: Any, field: str, at_most: int = limits.MAX_TEXT_CHARS) -> str:
    # Not printable covers control characters, NUL and lone surrogates, which have no UTF-8 to sign.
    if not isinstance(value, str) or not 1 <= len(value) <= at_most or not value.isprintable():
        raise GrantInvalid(f"send 1 to {at_most} printable characters", field=field)
    return value


def _matching(value: Any, form: re.Pattern[str], field: str) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise GrantInvalid(f"it must match {form.pattern}", field=field)
    return value


def _one_of(value: Any, known: tuple[str, ...], field: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise GrantInvalid(f"it is one of {', '.join(known)}", field=field)
    return value


def _integer(value: Any, field: str, at_most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= at_most:
        raise GrantInvalid(f"send a whole number from 0 to {at_most}", field=field)
    return value
