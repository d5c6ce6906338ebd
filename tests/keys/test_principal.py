"""The rule from principal to subject: the security boundary. (Acceptance tests C7 to C9.)"""

import itertools
from typing import Any

import pytest

from apps.keys.principal import Principal, Subject, operator, subject_of

KINDS = {
    "worker": "Worker",
    "human": "Human",
    "user": "Human",
    "service": "Service",
    "api_key": "Service",
    "agent": "Agent",
}


def principal(kind: str, **members: Any) -> Principal:
    return Principal(**{"kind": kind, "key_id": "k1", "scopes": frozenset(), "namespaces": frozenset(), **members})


@pytest.mark.parametrize(("kind", "subject"), KINDS.items())
def test_each_kind_of_principal_is_its_kind_of_subject(kind: str, subject: str) -> None:
    assert subject_of(kind, identity="i1", key_id="k1") == Subject(kind=subject, id="i1")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "worker"])
def test_only_a_worker_principal_ever_satisfies_a_worker_check(kind: str) -> None:
    assert principal(kind, identity="w1").subject == Subject(kind=KINDS[kind], id="w1")  # type: ignore[arg-type]
    assert not principal(kind, identity="w1").may_act_as_worker("w1")
    assert not principal(kind, key_id="w1").may_act_as_worker("w1")


def test_a_worker_is_bound_to_its_own_identity() -> None:
    worker = principal("worker", worker_id="w1")
    assert worker.subject == Subject(kind="Worker", id="w1")
    assert worker.may_act_as_worker("w1")
    for other in ("w2", "W1", "w1 ", "w", "*", "", "k1"):
        assert not worker.may_act_as_worker(other)


def test_a_worker_without_identity_is_its_key_id_and_never_a_wildcard() -> None:
    worker = principal("worker")
    assert worker.subject == Subject(kind="Worker", id="k1")
    assert worker.may_act_as_worker("k1")
    for other in ("w1", "*", ""):
        assert not worker.may_act_as_worker(other)
    assert not principal("worker", key_id="").may_act_as_worker("")


def test_a_worker_key_satisfies_no_human_or_service_check() -> None:
    worker = principal("worker", worker_id="w1").subject
    for kind in KINDS.values():
        assert (worker == Subject(kind=kind, id="w1")) == (kind == "Worker")  # type: ignore[arg-type]


def test_an_unknown_kind_is_nobody() -> None:
    for kind in ("", "root", "Worker", "workload"):
        with pytest.raises(KeyError):
            subject_of(kind, identity="i", key_id="k")


def test_scopes_match_exactly_or_by_everything_alone() -> None:
    holder = principal("service", scopes=frozenset({"state:read"}))
    assert holder.has("state:read")
    assert not any(holder.has(scope) for scope in ("state:write", "state:", "state:readx", "*", ""))
    assert all(principal("service", scopes=frozenset({"*"})).has(scope) for scope in ("state:read", "keys:admin"))
    assert not principal("service", scopes=frozenset({"state:*"})).has("state:read")


def test_namespaces_and_collections_match_exactly() -> None:
    holder = principal("service", namespaces=frozenset({"a"}), collections=frozenset({"c"}))
    assert holder.may_enter("a") and not holder.may_enter("ab") and not holder.may_enter("*")
    assert holder.may_touch("c") and not holder.may_touch("cc")
    assert principal("service", namespaces=frozenset({"*"})).may_enter("anything")
    assert principal("service").may_touch("anything")
    assert not principal("service", collections=frozenset()).may_touch("anything")


def test_a_principal_cannot_be_changed_and_its_subject_cannot_be_given() -> None:
    worker = principal("worker", worker_id="w1")
    for name, value in {"scopes": frozenset({"*"}), "subject": Subject(kind="Human", id="h")}.items():
        with pytest.raises(AttributeError):
            setattr(worker, name, value)
    with pytest.raises(TypeError):
        principal("service", subject=Subject(kind="Worker", id="w1"))


def test_labels_tell_kinds_apart() -> None:
    people = [principal(kind, identity="x") for kind in KINDS if kind not in ("user", "api_key")] + [operator("x")]
    labels = {person.label for person in people}
    assert labels == {"worker:x", "human:x", "service:x", "agent:x"}
    assert all(
        one.subject != other.subject or one.label == other.label for one, other in itertools.combinations(people, 2)
    )
