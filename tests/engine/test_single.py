"""The short forms say what a transaction of one mutation says."""

from typing import Any

import pytest

from feltdb_engine import Actor, Store, errors


def value_of(store: Store, key: str) -> Any:
    found = store.get(key)
    return None if found is None else (found.version, found.value)


def test_each_form_does_what_it_says(store: Store) -> None:
    assert store.put("a:1", {"n": 1}).revision == 1
    assert store.put("a:1", {"n": 2}).versions == (2,)
    assert store.insert("a:2", {"n": 1}).revision == 3
    store.update("a:2", {"n": 2, "m": 1})
    store.merge("a:2", {"m": None, "k": 3})
    assert value_of(store, "a:2") == (3, {"n": 2, "k": 3})
    store.delete("a:1")
    assert value_of(store, "a:1") is None
    assert store.delete("a:1").sequences == ()
    kinds = [one.kind for one in store.changes(store.start(), limit=100).operations]
    assert kinds == ["insert", "update", "insert", "update", "update", "delete"]


def test_an_id_may_hold_colons_and_a_key_without_one_is_refused(store: Store) -> None:
    store.put("a:1:2", {})
    assert value_of(store, "a:1:2") == (1, {})
    for key in ("a", "", ":1", "a:", 7):
        with pytest.raises(errors.InvalidKey):
            store.put(key, {})  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValue):
        store.put("a:1", [])  # type: ignore[arg-type]
    assert store.head().sequence == 1


def test_what_must_be_there_or_must_not_be_is_refused_otherwise(store: Store) -> None:
    store.insert("a:1", {})
    with pytest.raises(errors.PreconditionFailed):
        store.insert("a:1", {})
    for absent in (store.update, store.merge):
        with pytest.raises(errors.RecordNotFound):
            absent("a:2", {})
    assert store.head().sequence == 1


def test_a_version_that_is_another_by_now_changes_nothing(store: Store) -> None:
    store.compare_and_set("a:1", 0, {"n": 1})
    store.compare_and_set("a:1", 1, {"n": 2})
    for refused in (
        lambda: store.compare_and_set("a:1", 1, {"n": 3}),
        lambda: store.compare_and_set("a:1", 0, {"n": 3}),
        lambda: store.put("a:1", {"n": 3}, if_version=1),
        lambda: store.update("a:1", {"n": 3}, if_version=1),
        lambda: store.merge("a:1", {"n": 3}, if_version=1),
        lambda: store.delete("a:1", if_version=1),
    ):
        with pytest.raises(errors.PreconditionFailed):
            refused()
    assert value_of(store, "a:1") == (2, {"n": 2})
    store.delete("a:1", if_version=2)


def test_the_options_of_a_commit_are_passed_on(store: Store) -> None:
    actor = Actor(subject="service:x")
    first = store.put("a:1", {}, transaction_id="t", actor=actor, at_ms=7)
    assert store.put("a:1", {}, transaction_id="t", actor=actor, at_ms=8).duplicate
    with pytest.raises(errors.IdempotencyConflict):
        store.put("a:1", {"n": 1}, transaction_id="t")
    (one,) = store.changes(store.start(), limit=10).operations
    assert (one.at_ms, one.actor, first.at_ms) == (7, actor, 7)
