"""Keys of the reference's key file: taken with ids and tokens, never with more than they had, then kept better."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import argon2
import pytest

from apps.keys import bookkeeping, imported, importing, limits, peppers, reading, services, verify
from apps.keys.audit.models import AuditEvent
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import operator
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db

OPERATOR = operator("tests")
NOW = services.utc_now()
CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


def token_of(place: int) -> str:
    return "fdb_live_" + f"{place:048d}"


def record(place: int = 0, *, kept: str | None = None, **members: Any) -> dict[str, Any]:
    digest = "sha256:" + hashlib.sha256(token_of(place).encode()).hexdigest()
    return {
        "id": f"key{place:09d}",
        "name": f"key {place}",
        "hash": kept or digest,
        "scopes": ["state:read"],
        "namespaces": ["default"],
        "revoked": False,
        "worker_id": None,
        **members,
    }


def argon2_record(place: int, **members: Any) -> dict[str, Any]:
    return record(place, kept=CHEAP.hash(token_of(place)), **members)


def take(*records: Any, **members: Any) -> list[importing.Result]:
    return list(importing.import_keys({"keys": list(records)}, by=OPERATOR, now=NOW, **members))


def holds(place: int, now: Any = NOW) -> bool:
    return verify.principal_of(token_of(place), now=now) is not None


def scheme(place: int) -> str:
    return KeySecret.objects.get(key_id=f"key{place:09d}").scheme


@pytest.mark.parametrize("make", [record, argon2_record])
def test_a_key_goes_on_with_its_id_token_and_rights(make: Callable[..., dict[str, Any]]) -> None:
    [result] = take(make(1, scopes=["state:read", "state:write"], worker_id="w1", namespaces=["a", "b"]))
    assert (result.id, result.outcome, result.note) == ("key000000001", "imported", "")
    principal = verify.principal_of(token_of(1), now=NOW)
    assert principal is not None and principal.key_id == "key000000001" and principal.worker_id == "w1"
    assert (principal.scopes, principal.namespaces) == ({"state:read", "state:write"}, {"a", "b"})
    assert principal.label == "worker:w1"
    assert not holds(2)


@pytest.mark.parametrize("make", [record, argon2_record])
def test_its_secret_is_kept_as_a_digest_under_the_pepper_once_it_was_used(make: Callable[..., dict[str, Any]]) -> None:
    take(make(1))
    assert scheme(1) != "hmac" and holds(1)
    bookkeeping.flush(now=NOW)
    row = KeySecret.objects.get()
    assert (row.scheme, row.encoded, row.pepper_version, row.imported) == ("hmac", "", peppers.known().current, True)
    assert bytes(row.digest) == peppers.known().digests(token_of(1))[row.pepper_version]
    verify.forget_all()
    assert holds(1) and not holds(2)


def test_argon2_is_computed_once_for_a_key_and_never_for_one_of_ours(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    really = imported._is
    monkeypatch.setattr(imported, "_is", lambda encoded, text: computed.append(text) or really(encoded, text))  # type: ignore[func-returns-value]
    take(argon2_record(1))
    ours = make_key()
    for secret in (ours.secret, ours.secret[:-1] + "x", "fdb_live_short", "fdb_live_" + "é" * 48, ""):
        verify.principal_of(secret, now=NOW)
    assert computed == []
    for _ in range(3):  # before and after it is written
        verify.forget_all()
        assert holds(1)
    bookkeeping.flush(now=NOW)
    verify.forget_all()
    assert holds(1) and computed == [token_of(1)]
    assert not holds(2) and computed == [token_of(1)], "no secret that only Argon2 can tell is left to try"


def test_a_sha256_key_costs_one_indexed_query(django_assert_num_queries: Any) -> None:
    take(record(1))
    with django_assert_num_queries(1):
        assert holds(1)


def test_expired_revoked_and_rotated_hold_as_for_any_key() -> None:
    take(record(1), argon2_record(2), record(3), argon2_record(4))
    services.revoke_key("key000000001", by=OPERATOR)
    services.revoke_key("key000000002", by=OPERATOR)
    hour = timedelta(hours=1)
    new = [services.rotate_key(f"key{place:09d}", by=OPERATOR, grace=hour, now=NOW) for place in (3, 4)]
    assert [holds(place) for place in (1, 2, 3, 4)] == [False, False, True, True]
    assert all(verify.principal_of(issued.secret, now=NOW) for issued in new)
    assert [holds(place, NOW + hour) for place in (3, 4)] == [False, False]
    bookkeeping.flush(now=NOW)
    verify.forget_all()
    assert [holds(place) for place in (3, 4)] == [True, True]
    assert all(verify.principal_of(issued.secret, now=NOW + hour) for issued in new)


def test_a_revoked_key_comes_as_revoked_and_without_its_secret() -> None:
    [result] = take(record(1, revoked=True))
    key = ApiKey.objects.get()
    assert (result.outcome, key.state(NOW), key.revoked_by) == ("imported", "revoked", "import")
    assert not KeySecret.objects.exists() and not holds(1)


def test_scopes_that_mean_nothing_here_are_left_out_and_named_and_some_have_other_names() -> None:
    [result] = take(record(1, scopes=["state:read", "cluster:write", "authorization:grant"]))
    assert result.note == "left out: cluster:write"
    assert ApiKey.objects.get().scopes == ["grants:write", "state:read"]
    [refused] = take(record(2, scopes=["cluster:write"]))
    assert (refused.outcome, "scope" in refused.note) == ("refused", True)


def test_importing_again_takes_only_what_is_new_and_brings_nothing_back_to_life() -> None:
    take(record(1))
    services.revoke_key("key000000001", by=OPERATOR)
    assert [each.outcome for each in take(record(1), record(2))] == ["here already", "imported"]
    assert not holds(1) and holds(2)


def test_namespaces_can_get_other_names() -> None:
    assert take(record(1, namespaces=["My_App"]))[0].outcome == "refused"
    assert take(record(1, namespaces=["My_App"]), namespaces={"My_App": "my-app"})[0].outcome == "imported"
    assert ApiKey.objects.get().namespaces == ["my-app"]


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"id": "a/b"}, "id"),
        ({"id": 7}, "id"),
        ({"hash": "plain"}, "hash"),
        ({"hash": None}, "hash"),
        ({"hash": "sha256:00"}, "hash"),
        ({"hash": "$argon2id$v=19$m=65536"}, "hash"),
        ({"hash": "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"}, "costs more"),
        ({"scopes": "state:read"}, "scopes"),
        ({"scopes": []}, "scope"),
        ({"namespaces": []}, "namespaces"),
        ({"worker_id": "a b"}, "worker"),
        ({"worker_id": 1}, "worker"),
        ({"revoked": "no"}, "revoked"),
        ({"tenant": "t"}, "tenant"),
    ],
)
def test_a_bad_record_is_refused_alone(members: dict[str, Any], why: str) -> None:
    refused, taken = take({**record(1), **members}, record(2))
    assert (refused.outcome, taken.outcome) == ("refused", "imported") and why in refused.note
    assert ApiKey.objects.count() == 1


@pytest.mark.parametrize("document", [None, {}, {"tokens": ["fdb_live_x"]}, "x", {"keys": {}}])
def test_what_is_no_key_file_is_refused_whole(document: Any) -> None:
    with pytest.raises(importing.FileUnusable):
        importing.import_keys(document, by=OPERATOR, now=NOW)


def test_a_list_alone_is_a_key_file_and_its_order_is_kept() -> None:
    importing.import_keys([record(place) for place in range(3)], by=OPERATOR, now=NOW)
    newest_first = reading.list_keys(reader=OPERATOR, now=NOW).keys
    assert [key.name for key in newest_first] == ["key 2", "key 1", "key 0"]


def test_keys_that_only_argon2_can_tell_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ARGON2_SECRETS", 2)
    outcomes = [each.outcome for each in take(argon2_record(1), argon2_record(2), argon2_record(3), record(4))]
    assert outcomes == ["imported", "imported", "refused", "imported"]


def test_an_import_is_in_the_audit_trail_without_any_hash() -> None:
    take(record(1), argon2_record(2))
    events = str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.filter(action="key.imported").count() == 2
    assert "argon2" not in events and "sha256:" not in events


def test_over_http_an_imported_key_is_a_key_like_any_other(api: Callable[..., ApiClient], namespace: str) -> None:
    take(record(1, namespaces=[namespace]), argon2_record(2, namespaces=[namespace]))
    for place in (1, 2):
        assert api(token_of(place)).get("/v1/keys/current").json()["id"] == f"key{place:09d}"
    refused = api(token_of(3)).get("/v1/keys/current")
    assert (refused.status_code, refused.json()["code"]) == (401, "AUTHENTICATION_REQUIRED")
