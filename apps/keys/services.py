"""What can happen to keys and namespaces. Every door (command, console, HTTP) calls these; no rule lives elsewhere."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from apps.keys import limits, peppering, peppers, shapes, token, trust
from apps.keys.audit.services import record_in
from apps.keys.clock import milliseconds, utc_now
from apps.keys.errors import KeyConflict, KeyDenied, KeyInvalid, KeyNotFound, KeyRefused
from apps.keys.models import NAMESPACE_PATTERN, ApiKey, KeySecret, Namespace
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.reading import may_see
from apps.keys.scopes import EVERYTHING, SCOPES

_COLLECTION = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WORKER_ID = re.compile(rf"[A-Za-z0-9_.:-]{{1,{limits.MAX_WORKER_ID_CHARS}}}")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IssuedKey:
    """A key just made and its secret, which is kept nowhere and shown this once."""

    key: ApiKey
    secret: str

    def __repr__(self) -> str:
        return f"IssuedKey(key={self.key!r})"


def ensure_namespace(name: str, *, now: datetime | None = None) -> Namespace:
    """Return the namespace of that name, made if it was not there. Raises KeyInvalid for a malformed name."""
    if not re.fullmatch(NAMESPACE_PATTERN, name):
        raise KeyInvalid(
            "namespaces", f"'{name}' is no namespace name: 1 to 63 of a-z, 0-9 and '-', not beginning with '-'"
        )
    namespace, _ = Namespace.objects.get_or_create(name=name, defaults={"created_at": now or utc_now()})
    return namespace


def issue_key(
    *,
    name: str,
    namespaces: Sequence[str],
    scopes: Sequence[str],
    issuer: Principal,
    kind: str = "service",
    worker_id: str | None = None,
    collections: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    key_id: str | None = None,
    now: datetime | None = None,
) -> IssuedKey:
    """Make a key and its secret. Namespaces named for the first time are made with it.

    `key_id` is one of `token.new_key_id`, taken before, so that asking twice makes one key. Raises KeyInvalid for
    malformed fields, KeyDenied where `issuer` does not hold what it would give, KeyConflict where the id is taken.
    """
    now = now or utc_now()
    key = checked_key(
        key_id=key_id or token.new_key_id(),
        name=name,
        namespaces=namespaces,
        scopes=scopes,
        kind=kind,
        worker_id=worker_id,
        collections=collections,
        expires_at=expires_at,
        issuer=issuer,
        now=now,
    )
    secret = token.new_token(key.id, settings.KEY_ENVIRONMENT)
    try:
        with transaction.atomic():
            for namespace in key.namespaces:
                if namespace != EVERY_NAMESPACE:
                    ensure_namespace(namespace, now=now)
            key.save(force_insert=True)
            _keep(secret, key, now)
            _record("key.issued", key, by=issuer, now=now, before=None)
    except IntegrityError as error:
        if not ApiKey.objects.filter(pk=key.id).exists():
            raise
        raise KeyConflict(f"The key {key.id} was issued already.") from error
    return IssuedKey(key=key, secret=secret.text)


def checked_key(
    *,
    key_id: str,
    name: str,
    namespaces: Sequence[str],
    scopes: Sequence[str],
    kind: str,
    worker_id: str | None,
    collections: Sequence[str] | None,
    expires_at: datetime | None,
    issuer: Principal,
    now: datetime,
) -> ApiKey:
    """Return a key that `issuer` may give, not stored yet. Raises KeyInvalid, KeyDenied."""
    key = ApiKey(
        id=key_id,
        name=name.strip(),
        kind="worker" if worker_id is not None else kind,
        worker_id=worker_id or "",
        namespaces=sorted(set(namespaces)),
        scopes=sorted(set(scopes)),
        collections=None if collections is None else sorted(set(collections)),
        expires_at=expires_at,
        created_at=now,
        created_by=issuer.label[: limits.MAX_ACTOR_CHARS],
    )
    _check_form(key, worker_id=worker_id, now=now)
    _check_may_give(key, issuer)
    return key


def rotate_key(
    key_id: str,
    *,
    by: Principal,
    grace: timedelta = timedelta(0),
    newest: int | None = None,
    now: datetime | None = None,
) -> IssuedKey:
    """Give the key a new secret; id and all rights stay. The one before goes on for `grace` and ends exactly then.

    At most two secrets open a key: one that was in its grace already ends at once. Holds in every process when this
    returns. Raises KeyNotFound, KeyDenied where `by` holds less than the key, KeyInvalid for a key that is not live and
    for a grace beyond its limit, KeyConflict where `newest`, the row of its newest secret, is another by now.
    """
    now = now or utc_now()
    if not timedelta(0) <= grace <= timedelta(seconds=limits.MAX_GRACE_S):
        raise KeyInvalid("grace", f"a grace has 0 to {limits.MAX_GRACE_S} seconds")
    with trust.shrinking():
        key = _locked(key_id, by=by)
        state = key.state(now)
        if state != "live":
            raise KeyInvalid("key", f"the key is {state}; issue a new one")
        if newest is not None and newest_secret(key) != newest:
            raise KeyConflict("The key was given a new secret since this page was shown.")
        secret = token.new_token(key.id, settings.KEY_ENVIRONMENT)
        old = key.secrets.filter(ends_at=None)
        key.secrets.exclude(ends_at=None).delete()
        if grace:
            old.update(ends_at=now + grace)
        else:
            old.delete()
        _keep(secret, key, now)
        _record("key.rotated", key, by=by, now=now, before=None, reason=f"grace of {grace}")
    return IssuedKey(key=key, secret=secret.text)


def newest_secret(key: ApiKey) -> int:
    """Return the row of the secret the key was given last, 0 where it has none."""
    return key.secrets.order_by("-pk").values_list("pk", flat=True).first() or 0


def end_old_secret(key_id: str, *, by: Principal, now: datetime | None = None) -> bool:
    """End what is left of the grace of the key's old secret at once, in every process; returns whether there was one.

    Raises KeyNotFound, and KeyDenied where `by` holds less than the key.
    """
    now = now or utc_now()
    with trust.shrinking():
        key = _locked(key_id, by=by)
        ended, _ = key.secrets.filter(ends_at__gt=now).delete()
        if ended:
            _record("key.old_secret_ended", key, by=by, now=now, before=None)
    return bool(ended)


def revoke_key(key_id: str, *, by: Principal, now: datetime | None = None) -> ApiKey:
    """Revoke the key in every process before this returns; again is no error and changes nothing.

    Raises KeyNotFound, and KeyDenied where `by` holds less than the key.
    """
    return revoke_keys([key_id], by=by, now=now)[0]


def revoke_keys(key_ids: Sequence[str], *, by: Principal, now: datetime | None = None) -> list[ApiKey]:
    """Revoke the keys as `revoke_key` does, all of them or none, in the time that one takes. Returns them in order."""
    now = now or utc_now()
    with trust.shrinking():
        keys = [_locked(key_id, by=by) for key_id in key_ids]
        for key in keys:
            if key.revoked_at is None:
                before = shapes.summary(key)
                key.revoked_at = now
                key.revoked_by = by.label[: limits.MAX_ACTOR_CHARS]
                key.save(update_fields=["revoked_at", "revoked_by"])
                _record("key.revoked", key, by=by, now=now, before=before)
    return keys


def _locked(key_id: str, *, by: Principal) -> ApiKey:
    """Return the key for a change that `by` may make. Raises KeyNotFound, KeyDenied."""
    key = ApiKey.objects.select_for_update().filter(pk=key_id).first() if key_id.isalnum() else None
    if key is None or not may_see(by, key):
        raise KeyNotFound(f"there is no key '{key_id}'")
    _check_held(key, by)
    return key


def _keep(secret: token.Token, key: ApiKey, now: datetime) -> None:
    """Store the digest of a new current secret. Raises KeyRefused where the pepper is not the one it was."""
    known = peppers.known()
    try:
        peppering.record_in_use(known.current, now=now)
    except peppers.PepperRefused as refused:
        raise KeyRefused(str(refused)) from refused
    KeySecret.objects.create(
        key=key, digest=known.digests(secret.text)[known.current], pepper_version=known.current, created_at=now
    )


def _record(
    action: str, key: ApiKey, *, by: Principal, now: datetime, before: dict[str, Any] | None, reason: str = ""
) -> None:
    """Add to the audit trail what happened to the key, in each namespace it opens."""
    after = shapes.summary(key)
    why = " ".join(filter(None, (key.name, reason)))
    record_in(
        key.namespaces, by, action, target=key.id, reason=why, before=before, after=after, at_ms=milliseconds(now)
    )


def _check_form(key: ApiKey, *, worker_id: str | None, now: datetime) -> None:
    if not 1 <= len(key.name) <= limits.MAX_NAME_CHARS or not key.name.isprintable():
        raise KeyInvalid("name", f"a name has 1 to {limits.MAX_NAME_CHARS} printable characters")
    if key.kind not in ApiKey.Kind.values:
        raise KeyInvalid("kind", f"a kind is one of {', '.join(ApiKey.Kind.values)}")
    if worker_id is not None and not _WORKER_ID.fullmatch(worker_id):
        raise KeyInvalid("worker_id", f"a worker id has 1 to {limits.MAX_WORKER_ID_CHARS} of A-Z a-z 0-9 _ . : -")
    if not key.scopes:
        raise KeyInvalid("scopes", "name at least one scope")
    unknown = sorted(set(key.scopes) - set(SCOPES))
    if unknown:
        raise KeyInvalid("scopes", f"there is no scope '{unknown[0]}'; there are: {' '.join(SCOPES)}")
    if not 1 <= len(key.namespaces) <= limits.MAX_LISTED:
        raise KeyInvalid("namespaces", f"name 1 to {limits.MAX_LISTED} namespaces, or '*' for all")
    _check_collections(key.collections)
    if key.expires_at is not None and key.expires_at <= now:
        raise KeyInvalid("expires_at", "the expiry lies in the past")


def _check_collections(collections: Sequence[str] | None) -> None:
    if collections is None:
        return
    if not 1 <= len(collections) <= limits.MAX_LISTED:
        raise KeyInvalid("collections", f"name 1 to {limits.MAX_LISTED} collections, or none to allow all")
    for collection in collections:
        if not _COLLECTION.fullmatch(collection):
            raise KeyInvalid("collections", f"'{collection}' is no collection name")


def _check_may_give(key: ApiKey, issuer: Principal) -> None:
    """Hold the rule: nobody gives what they do not hold, nor for longer, nor as another than themselves."""
    _check_held(key, issuer)
    ends = issuer.gives_until_ms
    if ends is not None and (key.expires_at is None or milliseconds(key.expires_at) > ends):
        raise KeyDenied("a key cannot outlive the key it is issued by; give it an earlier expiry")
    if key.kind == ApiKey.Kind.HUMAN and issuer.subject.kind != "Human":
        raise KeyDenied("only a person gives a key that acts as a person")


def _check_held(key: ApiKey, holder: Principal) -> None:
    """Refuse unless `holder` may administer keys and holds everything the key does."""
    if not holder.has("keys:admin"):
        raise KeyDenied("this needs the scope keys:admin")
    if holder.subject.kind == "Worker" and holder.subject.id != key.worker_id:
        raise KeyDenied("a worker's key acts for that worker only")
    beyond = [scope for scope in key.scopes if not holder.has(scope)]
    if beyond:
        raise KeyDenied(f"the scope {beyond[0]} is not held by who asks")
    for namespace in key.namespaces:
        if not holder.may_enter(namespace):
            raise KeyDenied(f"the namespace {namespace} is not held by who asks")
    if holder.collections is not None and not set(key.collections or [EVERYTHING]) <= holder.collections:
        raise KeyDenied("the collections are not held by who asks")
