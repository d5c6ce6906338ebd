"""Keys from the reference's key file: read strictly, kept with their ids and tokens, never with more than they had.

    {"keys": [{"id", "name", "hash", "scopes": [..], "namespaces": [..], "revoked", "worker_id"}, ...]}, or the list
    hash      "sha256:" and 64 hex digits of the whole token, or Argon2's own form

Each key is taken or refused by itself, so that one bad record costs no other; importing again takes only what is new.
Scopes that mean nothing here are left out and named. Not here: how such a token is verified (`imported.py`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import argon2
from django.db import transaction

from apps.keys import limits, services
from apps.keys.audit.services import record_in
from apps.keys.clock import milliseconds
from apps.keys.errors import KeyRefused
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import SCOPES

Outcome = Literal["imported", "here already", "refused"]

_ID = re.compile(r"[A-Za-z0-9]{1,16}")
_SHA256 = re.compile(r"sha256:([0-9a-fA-F]{64})")
_MEMBERS = frozenset({"id", "name", "hash", "scopes", "namespaces", "revoked", "worker_id", "expires_at"})

RENAMED_SCOPES = {"authorization:grant": "grants:write", "workloads:read": "workload:read"}
"""Scopes that the reference calls otherwise."""


class FileUnusable(Exception):
    """What was given is no key file; the message is for the operator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of one record; `note` says why, and which scopes were left out."""

    id: str
    outcome: Outcome
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    id: str
    name: str
    scheme: str
    digest: bytes
    encoded: str
    scopes: list[str]
    left_out: list[str]
    namespaces: list[str]
    worker_id: str | None
    revoked: bool


class _Refused(Exception):
    pass


def import_keys(
    document: Any, *, by: Principal, now: datetime, namespaces: Mapping[str, str] | None = None
) -> Sequence[Result]:
    """Take every key of the parsed file; `namespaces` gives other names to some of theirs.

    Raises FileUnusable where it is no key file at all.
    """
    results = []
    for place, item in enumerate(_records(document)):
        shown = str(item.get("id"))[:32] if isinstance(item, dict) else f"record {place}"
        try:
            record = _read(item, namespaces or {})
            # Each a tick later than the one before: lists keep the file's order.
            outcome = _take(record, by=by, now=now + timedelta(microseconds=place))
        except (_Refused, KeyRefused) as refused:
            results.append(Result(id=shown, outcome="refused", note=str(refused)))
            continue
        left_out = f"left out: {' '.join(record.left_out)}" if record.left_out else ""
        results.append(Result(id=record.id, outcome=outcome, note=left_out))
    return results


def _records(document: Any) -> list[Any]:
    if isinstance(document, dict) and "keys" in document:
        document = document["keys"]
    if not isinstance(document, list):
        raise FileUnusable("this is no key file: a list of keys, or an object with such a list as `keys`, was expected")
    return document


def _read(item: Any, renamed: Mapping[str, str]) -> _Record:
    if not isinstance(item, dict):
        raise _Refused("it is no object")
    unknown = sorted(set(item) - _MEMBERS)
    if unknown:
        raise _Refused(f"it has a member {unknown[0]!r}, of which nothing is known here")
    key_id, kept = item.get("id"), item.get("hash")
    if not isinstance(key_id, str) or not _ID.fullmatch(key_id):
        raise _Refused("its id is not 1 to 16 letters and digits")
    if not isinstance(item.get("revoked", False), bool):
        raise _Refused("`revoked` is neither true nor false")
    if not isinstance(item.get("worker_id"), str | None):
        raise _Refused("`worker_id` is no text")
    scheme, digest, encoded = _hash(kept)
    scopes = [RENAMED_SCOPES.get(scope, scope) for scope in _texts(item, "scopes")]
    return _Record(
        id=key_id,
        name=_name(item.get("name"), key_id),
        scheme=scheme,
        digest=digest,
        encoded=encoded,
        scopes=[scope for scope in scopes if scope in SCOPES],
        left_out=sorted({scope for scope in scopes if scope not in SCOPES}),
        namespaces=[renamed.get(name, name) for name in _texts(item, "namespaces")],
        worker_id=item.get("worker_id"),
        revoked=item.get("revoked", False),
    )


def _hash(kept: Any) -> tuple[str, bytes, str]:
    """Return scheme, digest and Argon2's form."""
    match = _SHA256.fullmatch(kept) if isinstance(kept, str) else None
    if match:
        return KeySecret.Scheme.SHA256, bytes.fromhex(match.group(1)), ""
    if not isinstance(kept, str) or not kept.startswith("$argon2"):
        raise _Refused("its hash is neither `sha256:` and 64 hex digits nor Argon2's own form")
    try:
        cost = argon2.extract_parameters(kept)
    except argon2.exceptions.InvalidHashError:
        raise _Refused("its hash is no well-formed Argon2 hash") from None
    if len(kept) > limits.MAX_ENCODED_CHARS:
        raise _Refused("its Argon2 hash is too long")
    most = limits.MAX_IMPORTED_COST
    if cost.memory_cost > most.memory_kib or cost.time_cost > most.passes or cost.parallelism > most.lanes:
        raise _Refused("its Argon2 hash costs more than is computed here")
    return KeySecret.Scheme.ARGON2, b"", kept


def _name(name: Any, otherwise: str) -> str:
    text = "".join(char for char in name if char.isprintable()).strip() if isinstance(name, str) else ""
    return text[: limits.MAX_NAME_CHARS] or otherwise


def _texts(item: Mapping[str, Any], member: str) -> list[str]:
    value = item.get(member)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Refused(f"`{member}` is no list of texts")
    return value


def _take(record: _Record, *, by: Principal, now: datetime) -> Outcome:
    if ApiKey.objects.filter(pk=record.id).exists():
        return "here already"
    key = services.checked_key(
        key_id=record.id,
        name=record.name,
        namespaces=record.namespaces,
        scopes=record.scopes,
        kind="service",
        worker_id=record.worker_id,
        collections=None,
        expires_at=None,
        issuer=by,
        now=now,
    )
    if record.revoked:
        key.revoked_at, key.revoked_by = now, "import"
    with transaction.atomic():
        if record.scheme == KeySecret.Scheme.ARGON2 and not record.revoked:
            _check_room()
        for namespace in key.namespaces:
            if namespace != EVERY_NAMESPACE:
                services.ensure_namespace(namespace, now=now)
        key.save(force_insert=True)
        if not record.revoked:
            KeySecret.objects.create(
                key=key,
                scheme=record.scheme,
                digest=record.digest,
                encoded=record.encoded,
                imported=True,
                pepper_version=0,
                created_at=now,
            )
        record_in(key.namespaces, by, "key.imported", target=key.id, reason=key.name, at_ms=milliseconds(now))
    return "imported"


def _check_room() -> None:
    if KeySecret.objects.filter(scheme=KeySecret.Scheme.ARGON2).count() >= limits.MAX_ARGON2_SECRETS:
        raise _Refused(
            f"{limits.MAX_ARGON2_SECRETS} keys kept as Argon2 wait for their first use already; use, rotate or revoke "
            "some of them, then import again"
        )
