"""What can happen to keys and namespaces, and who may make it happen."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.keys import limits, peppers, reading, services, token, trust
from apps.keys.models import ApiKey, KeySecret, Namespace
from apps.keys.principal import Principal, operator
from apps.keys.scopes import SCOPES

pytestmark = pytest.mark.django_db

NOW = services.utc_now()
ROOT = operator("tests")


def issue(**members: Any) -> services.IssuedKey:
    return services.issue_key(
        **{"name": "a key", "namespaces": ["default"], "scopes": ["state:read"], "issuer": ROOT, "now": NOW, **members}
    )


def issuer(**members: Any) -> Principal:
    """Somebody who may issue keys, and holds what `members` say."""
    held = {"kind": "service", "key_id": "issuer", "namespaces": frozenset({"default"}), **members}
    return Principal(**{**held, "scopes": frozenset(held.get("scopes", set())) | {"keys:admin"}})


def test_a_key_is_kept_as_asked_and_its_secret_only_as_a_digest() -> None:
    issued = issue(name=" flights ", scopes=["state:write", "state:read", "state:read"], namespaces=["b", "a"])
    key = ApiKey.objects.get(pk=issued.key.id)
    assert (key.name, key.scopes, key.namespaces) == ("flights", ["state:read", "state:write"], ["a", "b"])
    assert (key.created_at, key.created_by, key.revoked_at) == (NOW, "human:tests", None)
    secret = KeySecret.objects.get(key=key)
    parsed = token.parse(issued.secret)
    assert parsed is not None and bytes(secret.digest) == peppers.known().digests(parsed.text)[1]
    assert issued.secret.encode() not in bytes(secret.digest)


def test_an_issued_key_does_not_show_its_secret_when_printed() -> None:
    issued = issue()
    assert issued.secret not in repr(issued) and issued.secret not in str(issued)


def test_naming_a_namespace_makes_it_once() -> None:
    issue(namespaces=["one"])
    made = Namespace.objects.get(pk="one").created_at
    issue(namespaces=["one"], now=NOW + timedelta(days=1))
    assert Namespace.objects.get(pk="one").created_at == made
    issue(namespaces=["*"])
    assert not Namespace.objects.filter(pk="*").exists()


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a" * 63, "0-"])
def test_a_namespace_name_within_the_form_is_taken(name: str) -> None:
    assert services.ensure_namespace(name).name == name


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a.b", "a/b", "..", "a" * 64, "ä", "a\n", "*"])
def test_a_namespace_name_outside_the_form_is_refused(name: str) -> None:
    with pytest.raises(services.KeyInvalid, match="namespace"):
        services.ensure_namespace(name)


MALFORMED: dict[str, dict[str, Any]] = {
    "no name": {"name": " "},
    "long name": {"name": "a" * (limits.MAX_NAME_CHARS + 1)},
    "name with a line break": {"name": "a\nb"},
    "no scopes": {"scopes": []},
    "unknown scope": {"scopes": ["state:read", "state:*"]},
    "no namespaces": {"namespaces": []},
    "too many namespaces": {"namespaces": [f"n{number}" for number in range(limits.MAX_LISTED + 1)]},
    "bad namespace": {"namespaces": ["../up"]},
    "unknown kind": {"kind": "root"},
    "worker id with blanks": {"worker_id": "a b"},
    "empty worker id": {"worker_id": ""},
    "wildcard worker id": {"worker_id": "*"},
    "long worker id": {"worker_id": "w" * (limits.MAX_WORKER_ID_CHARS + 1)},
    "no collection at all": {"collections": []},
    "bad collection": {"collections": ["a:b"]},
    "expiry now": {"expires_at": NOW},
    "expiry past": {"expires_at": NOW - timedelta(days=1)},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_request_is_refused_and_leaves_nothing(case: str) -> None:
    with pytest.raises(services.KeyInvalid) as caught:
        issue(**MALFORMED[case])
    assert caught.value.field
    assert not ApiKey.objects.exists() and not KeySecret.objects.exists() and not Namespace.objects.exists()


def test_limits_hold_at_the_limit() -> None:
    issue(name="a" * limits.MAX_NAME_CHARS, worker_id="w" * limits.MAX_WORKER_ID_CHARS)
    issue(namespaces=[f"n{number}" for number in range(limits.MAX_LISTED)], scopes=list(SCOPES))
    issue(collections=[f"c{number}" for number in range(limits.MAX_LISTED)])


def test_a_worker_id_makes_a_worker_key_whatever_kind_was_said() -> None:
    assert issue(worker_id="w1", kind="service").key.kind == "worker"
    assert issue(kind="worker").key.worker_id == ""


BEYOND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # case: what the issuer holds, what it would give
    "a scope it lacks": ({"scopes": {"state:read"}}, {"scopes": ["state:write"]}),
    "everything": ({"scopes": set(SCOPES) - {"*"}}, {"scopes": ["*"]}),
    "a namespace it lacks": ({"scopes": {"state:read"}}, {"namespaces": ["default", "other"]}),
    "every namespace": ({"scopes": {"state:read"}}, {"namespaces": ["*"]}),
    "all collections": ({"scopes": {"state:read"}, "collections": frozenset({"a"})}, {}),
    "a collection it lacks": (
        {"scopes": {"state:read"}, "collections": frozenset({"a"})},
        {"collections": ["a", "b"]},
    ),
    "a longer life": ({"scopes": {"*"}, "expires_at_ms": 1}, {"expires_at": NOW + timedelta(days=1)}),
    "life without end": ({"scopes": {"*"}, "expires_at_ms": 1}, {}),
    "another worker": ({"scopes": {"*"}, "kind": "worker", "worker_id": "w1"}, {"worker_id": "w2"}),
    "a service, being a worker": ({"scopes": {"*"}, "kind": "worker", "worker_id": "w1"}, {}),
    "a service, being a worker without identity": ({"scopes": {"*"}, "kind": "worker"}, {}),
    "a human, being a service": ({"scopes": {"*"}}, {"kind": "human"}),
}


@pytest.mark.parametrize("case", BEYOND)
def test_nobody_gives_what_they_do_not_hold(case: str) -> None:
    held, given = BEYOND[case]
    with pytest.raises(services.KeyDenied):
        issue(issuer=issuer(**held), **given)
    assert not ApiKey.objects.exists()


def test_who_holds_it_may_give_it() -> None:
    holder = issuer(scopes={"state:read"}, collections=frozenset({"a", "b"}), expires_at_ms=2**42)
    given = issue(issuer=holder, collections=["a"], expires_at=NOW + timedelta(days=1))
    assert given.key.created_by == "service:issuer"
    assert issue(issuer=issuer(scopes={"*"}), worker_id="w1").key.worker_id == "w1"


def test_issuing_takes_the_scope_for_it() -> None:
    reader = Principal(kind="service", key_id="k", scopes=frozenset({"state:read"}), namespaces=frozenset({"default"}))
    with pytest.raises(services.KeyDenied, match="keys:admin"):
        issue(issuer=reader)


def test_revoking_says_who_and_when_and_again_changes_nothing() -> None:
    key = issue().key
    services.revoke_key(key.id, by=ROOT, now=NOW)
    services.revoke_key(key.id, by=operator("somebody else"), now=NOW + timedelta(days=1))
    key.refresh_from_db()
    assert (key.revoked_at, key.revoked_by) == (NOW, "human:tests")


def test_revoking_takes_everything_the_key_holds() -> None:
    key = issue(scopes=["state:read", "state:write"]).key
    with pytest.raises(services.KeyDenied):
        services.revoke_key(key.id, by=issuer(scopes={"state:read"}))
    key.refresh_from_db()
    assert key.revoked_at is None
    services.revoke_key(key.id, by=issuer(scopes={"state:read", "state:write"}))
    key.refresh_from_db()
    assert key.revoked_by == "service:issuer"


def test_several_keys_are_revoked_in_one_go_or_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[None] = []
    monkeypatch.setattr(trust, "_is_shared", lambda: True)
    monkeypatch.setattr(trust, "outlive_leases", lambda: waits.append(None))
    keys = [issue().key.id, issue(scopes=["state:write"]).key.id, issue().key.id]
    with pytest.raises(services.KeyDenied):
        services.revoke_keys(keys, by=issuer(scopes={"state:read"}))
    assert not ApiKey.objects.exclude(revoked_at=None).exists() and waits == []
    assert [key.id for key in services.revoke_keys(keys, by=ROOT)] == keys
    assert ApiKey.objects.exclude(revoked_at=None).count() == 3
    assert len(waits) == 1, "one wait, however many there are"


def test_whoever_may_give_a_key_may_end_one_that_outlives_them() -> None:
    key = issue().key
    services.revoke_key(key.id, by=issuer(scopes={"state:read"}, expires_at_ms=1))
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_key_of_another_namespace_cannot_be_told_from_none() -> None:
    key = issue(namespaces=["default", "other"]).key
    stranger = issuer(scopes={"*"})
    messages = set()
    for key_id in (key.id, "none"):
        for attempt in (
            lambda key_id: services.revoke_key(key_id, by=stranger),
            lambda key_id: reading.get_key(key_id, reader=stranger),
        ):
            with pytest.raises(services.KeyNotFound) as caught:
                attempt(key_id)
            messages.add(str(caught.value).replace(key_id, "?"))
    assert len(messages) == 1
    assert listed(reader=stranger) == []
    assert reading.get_key(key.id, reader=ROOT) == key


def listed(**members: Any) -> list[ApiKey]:
    return reading.list_keys(**{"reader": ROOT, "now": NOW, **members}).keys


def test_lists_are_newest_first_and_can_leave_out_the_dead() -> None:
    old = issue(name="old").key
    new = issue(name="new", now=NOW + timedelta(seconds=1)).key
    dead = issue(name="dead", namespaces=["other"], expires_at=NOW + timedelta(seconds=5)).key
    later = NOW + timedelta(seconds=5)
    assert listed(now=later)[0] == new
    assert {key.id for key in listed(now=later)} == {old.id, new.id, dead.id}
    assert listed(now=later, live_only=True) == [new, old]
    assert listed(now=later, namespace="other") == [dead]


def test_pages_go_on_where_the_last_one_ended_also_among_keys_of_one_instant() -> None:
    made = {issue().key.id for _ in range(5)}
    seen: list[str] = []
    below = None
    for _ in range(3):
        page = reading.list_keys(reader=ROOT, now=NOW, below=below, limit=2)
        seen += [key.id for key in page.keys]
        below = page.below
    assert (len(seen), set(seen), below) == (5, made, None)
    assert reading.list_keys(reader=ROOT, now=NOW, limit=5).below is None


def test_no_field_of_an_issued_key_is_a_secret(make_key: Callable[..., Any]) -> None:
    from apps.keys import shapes

    issued = make_key()
    assert issued.secret not in str(shapes.summary(issued.key))
    assert shapes.created(issued.key, None)["secret"] is None
