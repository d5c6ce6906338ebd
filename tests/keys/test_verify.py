"""Whom a bearer token authenticates, and what it costs to find out."""

import hmac
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.keys import services, token, verify
from apps.keys.models import KeySecret
from apps.keys.principal import operator

NOW = services.utc_now()
IN_AN_HOUR = NOW + timedelta(hours=1)


def holds(secret: str, now: datetime = NOW) -> bool:
    return verify.principal_of(secret, now=now) is not None


def test_a_key_is_the_principal_it_was_issued_as(make_key: Callable[..., Any]) -> None:
    issued = make_key(
        scopes=["workload:claim", "state:read"],
        namespaces=["b", "a"],
        worker_id="w1",
        collections=["c"],
        expires_at=IN_AN_HOUR,
    )
    principal = verify.principal_of(issued.secret, now=NOW)
    assert principal is not None
    assert (principal.kind, principal.worker_id, principal.key_id) == ("worker", "w1", issued.key.id)
    assert principal.scopes == {"state:read", "workload:claim"}
    assert (principal.namespaces, principal.collections) == ({"a", "b"}, {"c"})
    assert principal.expires_at_ms == verify.milliseconds(IN_AN_HOUR)


def test_expired_means_now_at_or_after_the_expiry_remembered_or_not(make_key: Callable[..., Any]) -> None:
    secret = make_key(expires_at=IN_AN_HOUR, now=NOW).secret
    tick = timedelta(microseconds=1)
    assert not holds(secret, IN_AN_HOUR)
    assert holds(secret, IN_AN_HOUR - tick)
    assert not holds(secret, IN_AN_HOUR)
    assert not holds(secret, IN_AN_HOUR + tick)


def test_a_revoked_key_holds_no_longer_once_revoke_returned(make_key: Callable[..., Any]) -> None:
    issued = make_key()
    assert holds(issued.secret)
    services.revoke_key(issued.key.id, by=operator("tests"))
    assert not holds(issued.secret)


def test_revoking_one_key_leaves_the_others(make_key: Callable[..., Any]) -> None:
    one, other = make_key(), make_key()
    assert holds(one.secret) and holds(other.secret)
    services.revoke_key(one.key.id, by=operator("tests"))
    assert holds(other.secret) and not holds(one.secret)


def test_a_malformed_token_costs_no_query(make_key: Callable[..., Any], django_assert_num_queries: Any) -> None:
    mistyped = make_key().secret[:-1] + "!"
    with django_assert_num_queries(0):
        assert not holds(mistyped) and not holds("") and not holds("fdb_live_x")


def test_unknown_wrong_revoked_and_expired_do_the_same_work(
    make_key: Callable[..., Any], django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = make_key()
    revoked = make_key()
    services.revoke_key(revoked.key.id, by=operator("tests"))
    secrets = {
        "unknown": token.new_token(token.new_key_id(), "live").text,
        "wrong": token.new_token(live.key.id, "live").text,
        "revoked": revoked.secret,
        "expired": make_key(expires_at=NOW, now=NOW - timedelta(days=1)).secret,
    }
    compared: list[int] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, two: compared.append(1) or compare(one, two))  # type: ignore[func-returns-value]
    work = {}
    for case, secret in secrets.items():
        compared.clear()
        with django_assert_num_queries(1):
            assert not holds(secret)
        work[case] = len(compared)
    assert set(work.values()) == {2}


def test_a_verified_key_is_remembered_and_costs_no_further_query(
    make_key: Callable[..., Any], django_assert_num_queries: Any
) -> None:
    secret = make_key().secret
    assert holds(secret)
    with django_assert_num_queries(0):
        assert holds(secret)


def test_a_refusal_is_never_remembered(make_key: Callable[..., Any]) -> None:
    issued = make_key(expires_at=IN_AN_HOUR, now=NOW)
    assert not holds(issued.secret, IN_AN_HOUR)
    assert holds(issued.secret, NOW)


def test_memory_is_bounded(make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MAX_CACHED_KEYS", 3)
    for _ in range(8):
        assert holds(make_key().secret)
        assert len(verify._remembered) <= 3


def test_memory_holds_no_secret(make_key: Callable[..., Any]) -> None:
    secret = make_key().secret
    assert holds(secret)
    assert secret not in repr(verify._remembered) and secret[-49:] not in repr(verify._remembered)


def test_a_secret_under_a_pepper_that_is_lost_holds_no_more_and_the_log_says_why(
    make_key: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    issued = make_key()
    KeySecret.objects.filter(key=issued.key).update(pepper_version=7)
    assert not holds(issued.secret)
    assert "pepper version 7" in caplog.text


@pytest.mark.parametrize("text", ["ü" * 71, "\ud800", "\0", "fdb_live_" + "a" * 4000])
def test_any_text_at_all_is_refused_without_an_error(text: str, db: None) -> None:
    assert not holds(text)
