"""A new secret for a key: id and rights stay, the old secret lives out its grace and not a tick more."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.keys import epoch, limits, services, shapes, verify
from apps.keys.audit.models import AuditEvent
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import Principal, operator

OPERATOR = operator("tests")
NOW = services.utc_now()
GRACE = timedelta(hours=1)
TICK = timedelta(microseconds=1)
ENDS = NOW + GRACE


def holds(secret: str, now: datetime = NOW) -> bool:
    return verify.principal_of(secret, now=now) is not None


def rotate(key: ApiKey, **members: Any) -> services.IssuedKey:
    return services.rotate_key(key.id, **{"by": OPERATOR, "now": NOW, **members})


def test_id_and_rights_stay_and_both_secrets_open_the_key_within_the_grace(make_key: Callable[..., Any]) -> None:
    issued = make_key(scopes=["state:read"], collections=["c"], expires_at=NOW + timedelta(days=1), now=NOW)
    before = shapes.summary(ApiKey.objects.get(pk=issued.key.id))
    rotated = rotate(issued.key, grace=GRACE)
    assert shapes.summary(ApiKey.objects.get(pk=issued.key.id)) == before
    old = verify.principal_of(issued.secret, now=NOW)
    assert old is not None and old == verify.principal_of(rotated.secret, now=NOW)


@pytest.mark.parametrize("remembered", [True, False])
def test_the_old_secret_ends_exactly_with_its_grace(make_key: Callable[..., Any], remembered: bool) -> None:
    issued = make_key(now=NOW)
    assert holds(issued.secret)
    rotated = rotate(issued.key, grace=GRACE)
    if remembered:
        assert holds(issued.secret) and holds(rotated.secret)
    for at, old_holds in ((ENDS - TICK, True), (ENDS, False), (ENDS + TICK, False)):
        assert (holds(issued.secret, at), holds(rotated.secret, at)) == (old_holds, True), at
        if not remembered:
            verify.forget_all()


def test_without_a_grace_the_old_secret_ends_at_once_where_it_was_remembered_too(make_key: Callable[..., Any]) -> None:
    issued = make_key(now=NOW)
    assert holds(issued.secret)
    rotated = rotate(issued.key)
    assert (holds(issued.secret), holds(rotated.secret)) == (False, True)
    assert KeySecret.objects.filter(key=issued.key).count() == 1


def test_a_second_rotation_leaves_two_secrets_the_newest_ones(make_key: Callable[..., Any]) -> None:
    first = make_key(now=NOW)
    second = rotate(first.key, grace=GRACE)
    third = rotate(first.key, grace=GRACE * 2)
    assert [holds(issued.secret) for issued in (first, second, third)] == [False, True, True]
    assert KeySecret.objects.filter(key=first.key).count() == verify.MAX_LIVE_SECRETS
    assert not holds(second.secret, NOW + GRACE * 2)


def test_the_rest_of_a_grace_can_be_given_up(make_key: Callable[..., Any]) -> None:
    issued = make_key(now=NOW)
    rotated = rotate(issued.key, grace=GRACE)
    assert holds(issued.secret)
    assert services.end_old_secret(issued.key.id, by=OPERATOR, now=NOW)
    assert (holds(issued.secret), holds(rotated.secret)) == (False, True)
    assert not services.end_old_secret(issued.key.id, by=OPERATOR, now=NOW)


def test_revoking_ends_both_secrets(make_key: Callable[..., Any]) -> None:
    issued = make_key(now=NOW)
    rotated = rotate(issued.key, grace=GRACE)
    services.revoke_key(issued.key.id, by=OPERATOR)
    assert not holds(issued.secret) and not holds(rotated.secret)


def test_a_rotation_moves_the_epoch_so_that_every_process_reads_anew(make_key: Callable[..., Any]) -> None:
    issued = make_key(now=NOW)
    before = epoch.shared().read()
    rotate(issued.key, grace=GRACE)
    assert epoch.shared().read() != before


def test_a_key_that_is_not_live_is_not_rotated(make_key: Callable[..., Any]) -> None:
    expired = make_key(expires_at=NOW, now=NOW - GRACE)
    revoked = make_key()
    services.revoke_key(revoked.key.id, by=OPERATOR)
    for issued in (expired, revoked):
        with pytest.raises(services.KeyInvalid):
            rotate(issued.key)


@pytest.mark.parametrize(
    ("grace", "allowed"),
    [
        (timedelta(seconds=limits.MAX_GRACE_S), True),
        (timedelta(seconds=limits.MAX_GRACE_S, microseconds=1), False),
        (-TICK, False),
    ],
)
def test_a_grace_has_its_limit(make_key: Callable[..., Any], grace: timedelta, allowed: bool) -> None:
    issued = make_key(now=NOW)
    if allowed:
        rotate(issued.key, grace=grace)
    else:
        with pytest.raises(services.KeyInvalid):
            rotate(issued.key, grace=grace)


def test_nobody_rotates_a_key_that_holds_more_than_they_do_or_that_they_cannot_see(
    make_key: Callable[..., Any], namespace: str
) -> None:
    weaker = Principal(kind="service", key_id="k", scopes=frozenset({"keys:admin"}), namespaces=frozenset({namespace}))
    stronger = make_key(scopes=["keys:admin", "state:read"])
    with pytest.raises(services.KeyDenied):
        rotate(stronger.key, by=weaker)
    with pytest.raises(services.KeyDenied):
        services.end_old_secret(stronger.key.id, by=weaker)
    for key_id in (make_key(namespaces=["elsewhere"]).key.id, "nobody", "no/id"):
        with pytest.raises(services.KeyNotFound):
            services.rotate_key(key_id, by=weaker)
    assert holds(stronger.secret)


def test_a_rotation_is_in_the_audit_trail_without_any_secret(make_key: Callable[..., Any], namespace: str) -> None:
    issued = make_key(now=NOW)
    rotated = rotate(issued.key, grace=GRACE)
    event = AuditEvent.objects.get(action="key.rotated")
    assert (event.target, event.namespace, event.subject) == (issued.key.id, namespace, "human:tests")
    assert rotated.secret not in str(AuditEvent.objects.values()) and "grace of 1:00:00" in event.reason
