"""What may be said, at each limit and one beyond; everything else is refused with its place."""

import enum
import math
from typing import Any

import pytest

from feltdb_engine import Actor, Mutation, Store, errors, limits
from feltdb_engine.values import encode_value, same_json
from tests.engine.kit import put


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return {"a": value} if depth else 1


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"a": math.nan}, "/a"),
        ({"a": [1, math.inf]}, "/a/1"),
        ({"a": 1 << 64}, "/a"),
        ({"a": -(1 << 63) - 1}, "/a"),
        ({"a": {"b/c~d": "x\0"}}, "/a/b~1c~0d"),
        ({"a\0": 1}, ""),
        ({"a": "\ud800"}, "/a"),
        ({"\udc00": 1}, ""),
        ({"a": b"bytes"}, "/a"),
        ({"a": {1, 2}}, "/a"),
        ({"a": Colour.RED}, "/a"),
        ({1: "a"}, ""),
        ({"a": object()}, "/a"),
        ([], ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_what_json_cannot_say_exactly_is_refused_with_its_place(value: Any, pointer: str) -> None:
    with pytest.raises(errors.InvalidValue) as refused:
        encode_value(value)
    assert refused.value.details["pointer"] == pointer


@pytest.mark.parametrize(
    "value",
    [
        {"a": "\\u0000 is six characters"},
        {"a": (1 << 64) - 1, "b": -(1 << 63), "c": 5e-324, "d": -0.0},
        {"": {"": []}},
        {"a": "\x7f\x85  \U0010ffff"},
    ],
)
def test_what_json_can_say_is_kept_exactly(store: Store, value: Any) -> None:
    store.commit([put("a:1", value)])
    found = store.get("a:1")
    assert found is not None and same_json(found.value, value)
    assert math.copysign(1, found.value.get("d", 1.0)) == math.copysign(1, value.get("d", 1.0))  # type: ignore[arg-type]


def test_depth_is_limited(store: Store) -> None:
    store.commit([put("a:1", nested(limits.VALUE_MAX_DEPTH))])
    with pytest.raises(errors.InvalidValue):
        store.commit([put("a:2", nested(limits.VALUE_MAX_DEPTH + 1))])


def test_a_value_is_limited_in_bytes(store: Store) -> None:
    room = limits.VALUE_MAX_BYTES - len('{"a":""}')
    assert len(encode_value({"a": "x" * room})) == limits.VALUE_MAX_BYTES
    with pytest.raises(errors.InvalidValue):
        encode_value({"a": "x" * (room + 1)})


def test_merging_cannot_grow_a_record_past_the_limit(store: Store) -> None:
    store_id = "a:1"
    with pytest.raises(errors.TransactionTooLarge):
        store.commit([put(store_id, {"a": "x" * 400_000})])  # this store's segments are small
    store.commit([put(store_id, {"a": "x" * 200_000})])
    assert store.commit([put(store_id, {"b": "x"}, kind="merge")]).versions == (2,)


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("a" * limits.COLLECTION_MAX_CHARS, True),
        ("a" * (limits.COLLECTION_MAX_CHARS + 1), False),
        ("_a.b-C9", True),
        ("9", True),
        ("-a", False),
        (".a", False),
        ("", False),
        ("ä", False),
        ("a b", False),
        ("a\n", False),
        ("a:b", False),
    ],
)
def test_collection_names(store: Store, name: str, fine: bool) -> None:
    mutation = Mutation(kind="put", collection=name, id="1", value={})
    if fine:
        store.commit([mutation])
        assert [record.collection for record in store.page(name).records] == [name]
    else:
        with pytest.raises(errors.InvalidKey):
            store.commit([mutation])
        with pytest.raises(errors.InvalidKey):
            store.page(name)


@pytest.mark.parametrize(
    ("record_id", "fine"),
    [
        ("x" * limits.ID_MAX_BYTES, True),
        ("ä" * (limits.ID_MAX_BYTES // 2), True),
        ("x" * (limits.ID_MAX_BYTES + 1), False),
        ("ä" * (limits.ID_MAX_BYTES // 2) + "x", False),
        ("a:b:c", True),
        (" ", True),
        ("/", True),
        ("...", True),
        (".", False),
        ("..", False),
        ("", False),
        ("a\0", False),
        ("a\x1f", False),
        ("a\x7f", False),
        ("a\x85", False),
        ("\ud800", False),
    ],
)
def test_record_ids(store: Store, record_id: str, fine: bool) -> None:
    mutation = Mutation(kind="put", collection="a" * limits.COLLECTION_MAX_CHARS, id=record_id, value={"n": 1})
    key = f"{mutation.collection}:{record_id}"
    if fine:
        store.commit([mutation])
        found = store.get(key)
        assert found is not None and found.id == record_id
        assert store.get_many([key])[0] == found
        store.commit([Mutation(kind="delete", collection=mutation.collection, id=record_id)])
        assert store.get(key) is None
    else:
        for use in (lambda: store.commit([mutation]), lambda: store.get(key), lambda: store.get_many([key])):
            with pytest.raises(errors.InvalidKey):
                use()


@pytest.mark.parametrize("key", ["", "a", "a\0b", ":", "a:", ":1", "a\0b:c"])
def test_what_is_no_key_is_refused_and_never_found(store: Store, key: str) -> None:
    store.commit([put("a:b", {}), put("a:b:c", {})])
    with pytest.raises(errors.InvalidKey):
        store.get(key)


@pytest.mark.parametrize(
    ("identity", "fine"),
    [("t" * 128, True), ("t" * 129, False), ("", False), ("a\n", False), ("ü", True)],
)
def test_transaction_ids(store: Store, identity: str, fine: bool) -> None:
    if fine:
        assert store.commit([put("a:1", {})], transaction_id=identity).transaction_id == identity
        assert [one.transaction_id for one in store.changes(None).operations] == [identity]
    else:
        with pytest.raises(errors.InvalidKey):
            store.commit([put("a:1", {})], transaction_id=identity)


def test_an_actor_is_kept_as_given_and_limited(store: Store) -> None:
    actor = Actor(subject="human:ada", workload_id="w1")
    store.commit([put("a:1", {})], actor=actor)
    assert store.changes(None).operations[0].actor == actor
    with pytest.raises(errors.TransactionTooLarge):
        store.commit([put("a:1", {})], actor=Actor(subject="x" * limits.ACTOR_MAX_BYTES))


def test_a_transaction_is_limited_in_mutations(store: Store) -> None:
    most = [put(f"a:{number}", {}) for number in range(limits.TRANSACTION_MAX_MUTATIONS)]
    with pytest.raises(errors.TransactionTooLarge):
        store.commit([*most, put("b:1", {})])
    with pytest.raises(errors.TransactionTooLarge):
        store.commit(most)  # in this store a quarter of a segment is less than that


def test_the_largest_transaction_fits_a_default_store(tmp_path: Any) -> None:
    with Store.open(tmp_path / "s") as store:
        most = [put(f"a:{number}", {"n": number}) for number in range(limits.TRANSACTION_MAX_MUTATIONS)]
        assert len(store.commit(most, transaction_id="t").sequences) == len(most)
        assert len(store.transaction("t").versions) == len(most)  # type: ignore[union-attr]
        with pytest.raises(errors.TransactionTooLarge):
            store.commit([put(f"b:{number}", {"x": "x" * 1_000_000}) for number in range(17)])


def test_json_values_are_the_same_only_within_their_types() -> None:
    assert same_json({"a": [1, None]}, {"a": [1, None]})
    for left, right in [(1, 1.0), (1, True), (0, False), ("1", 1), (None, False), ([1], [1.0]), ({"a": 1}, {"b": 1})]:
        assert not same_json(left, right)
