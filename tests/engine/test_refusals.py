"""What callers cannot say: each refusal has its code and its place, and nothing is committed."""

from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import Actor, Cursor, Mutation, Store, errors, limits
from tests.engine.kit import boot, put, require

MANY = [require(f"a:{number}", "absent") for number in range(limits.TRANSACTION_MAX_PRECONDITIONS + 1)]
DEEP: Any = {}
for _ in range(limits.VALUE_MAX_DEPTH + 5):
    DEEP = {"x": DEEP}
COMMITS: dict[str, tuple[type[errors.EngineError], str | None, list[Mutation], dict[str, Any]]] = {
    "time not whole": (errors.InvalidValue, "/at_ms", [put("a:1", {})], {"at_ms": 1.5}),
    "time before 1970": (errors.InvalidValue, "/at_ms", [put("a:1", {})], {"at_ms": -1}),
    "hash too short": (
        errors.InvalidValue,
        "/payload_hash",
        [put("a:1", {})],
        {"transaction_id": "t", "payload_hash": b"short"},
    ),
    "version not whole": (errors.InvalidValue, "/mutations/0/if_version", [put("a:1", {}, if_version=-1)], {}),
    "delete with a value": (
        errors.InvalidValue,
        "/mutations/0/value",
        [Mutation(kind="delete", collection="a", id="1", value={})],
        {},
    ),
    "too many preconditions": (errors.TransactionTooLarge, None, [put("a:1", {})], {"preconditions": MANY}),
    "unknown predicate": (
        errors.InvalidValue,
        "/preconditions/0/predicate",
        [put("a:1", {})],
        {"preconditions": [require("a:1", "maybe")]},
    ),
    "version missing": (
        errors.InvalidValue,
        "/preconditions/0/version",
        [put("a:1", {})],
        {"preconditions": [require("a:1", "version")]},
    ),
    "pointer without a slash": (
        errors.InvalidValue,
        "/preconditions/0/pointer",
        [put("a:1", {})],
        {"preconditions": [require("a:1", "equals", pointer="n", value=1)]},
    ),
    "pointer with a bare tilde": (
        errors.InvalidValue,
        "/preconditions/0/pointer",
        [put("a:1", {})],
        {"preconditions": [require("a:1", "equals", pointer="/a~2", value=1)]},
    ),
    "actor of numbers": (errors.InvalidValue, "/actor/subject", [put("a:1", {})], {"actor": Actor(subject=7)}),  # type: ignore[arg-type]
    "id of surrogates": (errors.InvalidValue, None, [put("a:1", {})], {"transaction_id": "\ud800"}),
    "too deep": (errors.InvalidValue, None, [put("a:1", DEEP)], {}),
    "not JSON": (errors.InvalidValue, None, [put("a:1", {"x": object()})], {}),
}


@pytest.mark.parametrize("name", COMMITS)
def test_a_transaction_that_cannot_be_said_is_refused_with_its_place(store: Store, name: str) -> None:
    kind, pointer, mutations, members = COMMITS[name]
    with pytest.raises((kind, errors.InvalidKey)) as refused:
        store.commit(mutations, **members)
    assert refused.value.committed is False
    assert pointer is None or refused.value.details["pointer"] == pointer
    assert store.head().sequence == 0


def test_an_actor_that_says_nothing_is_nobody(store: Store) -> None:
    store.commit([put("a:1", {})], actor=Actor())
    assert store.changes(None).operations[0].actor == Actor()


@pytest.mark.parametrize("value", [[1], "x", None, 3])
def test_equals_looks_into_lists_by_their_places(store: Store, value: Any) -> None:
    store.commit([put("a:1", {"list": [value]})])
    store.commit([put("a:2", {})], preconditions=[require("a:1", "equals", pointer="/list/0", value=value)])
    for pointer in ("/list/1", "/list/00", "/list/x", "/list/0/y"):
        with pytest.raises(errors.PreconditionFailed):
            store.commit([put("a:3", {})], preconditions=[require("a:1", "equals", pointer=pointer, value=value)])


@pytest.mark.parametrize("key", ["a", "", ":", "a:", ":1", "\ud800:1", 7, "a:" + "x" * 257, "a" * 129 + ":1"])
def test_a_key_that_is_none_is_refused_by_every_read(store: Store, key: Any) -> None:
    with pytest.raises(errors.InvalidKey):
        store.get(key)
    with pytest.raises(errors.InvalidKey):
        store.get_many([key])


def test_reads_are_bounded(store: Store) -> None:
    store.commit([put("a:1", {"n": 1})])
    keys = ["a:1"] * (limits.GET_MANY_MAX_KEYS + 1)
    assert len(store.get_many(keys[1:])) == limits.GET_MANY_MAX_KEYS
    with pytest.raises(errors.InvalidKey):
        store.get_many(keys)
    with pytest.raises(errors.InvalidKey):
        store.snapshot().get_many(keys)
    for limit in (0, limits.CHANGES_MAX_OPERATIONS + 1):
        with pytest.raises(errors.InvalidQuery):
            store.changes(None, limit=limit)
    for limit in (0, limits.PAGE_MAX_RECORDS + 1):
        with pytest.raises(errors.InvalidQuery):
            store.page("a", limit=limit)


def test_orders_are_bounded_and_their_cursors_belong_to_them(store: Store) -> None:
    for number in range(3):
        store.commit([put(f"a:{number}", {"n": number})])
    fields = [(f"f{number}", "asc") for number in range(limits.ORDER_BY_MAX_FIELDS + 1)]
    assert len(store.query("a", order_by=fields[1:]).records) == 3
    for order in (fields, [("n", "up")]):
        with pytest.raises(errors.InvalidQuery):
            store.query("a", order_by=order)
    cursor = store.query("a", order_by=[("n", "asc")], limit=1).next_cursor
    with pytest.raises(errors.InvalidCursor):
        store.query("a", order_by=[("n", "asc"), ("m", "asc")], limit=1, after=cursor)


def test_cursors_are_text_and_back() -> None:
    cursor = Cursor(instance_id="0" * 32, sequence=12)
    assert Cursor.parse(str(cursor)) == cursor
    for text in ("", "x", "-1", "x-", "x-y", "x-1.0", "x-" + "9" * 21, "x-²"):
        with pytest.raises(ValueError):
            Cursor.parse(text)


@pytest.mark.parametrize("size", [1 << 15, (1 << 16) + 1, 1 << 31])
def test_a_segment_size_that_cannot_be_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(errors.FormatUnsupported):
        Store.open(tmp_path / "s", segment_bytes=size)
    assert not (tmp_path / "s").exists()


def test_one_process_opens_a_store_in_one_way(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s"):
        for other in ({"durability": "os"}, {"read_only": True}):
            with pytest.raises(ValueError):
                Store.open(tmp_path / "s", **other)  # type: ignore[arg-type]


def test_a_view_that_was_to_be_made_again_while_it_is_rebuilt_is_made_again_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.commit([put("a:1", {})])
        for _ in range(2):
            store.rebuild_view()
            store.renew()
        assert store.get("a:1") is not None and store.verify().good


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"import_id": ""}, errors.InvalidKey),
        ({"import_id": "x" * (limits.IMPORT_ID_MAX_BYTES + 1)}, errors.InvalidKey),
        ({"import_id": "i", "batch_lines": 0}, errors.InvalidValue),
        ({"import_id": "i", "batch_lines": limits.TRANSACTION_MAX_MUTATIONS + 1}, errors.InvalidValue),
        ({"import_id": "i", "mode": "merge"}, errors.InvalidValue),
        ({"import_id": "i", "on_bad_row": "guess"}, errors.InvalidValue),
        ({"import_id": "i", "collection": "no name"}, errors.InvalidKey),
    ],
)
def test_an_import_that_cannot_be_said_is_refused_before_its_first_line(
    store: Store, members: dict[str, Any], kind: type[errors.EngineError]
) -> None:
    def never() -> Any:
        raise AssertionError("read")
        yield b""

    with pytest.raises(kind):
        store.import_ndjson(never(), **members)
    assert store.head().sequence == 0


def test_names_beyond_those_a_process_remembers_are_checked_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from feltdb_engine import values

    monkeypatch.setattr(limits, "NAMES_REMEMBERED", 2)
    values._collections.clear()
    for number in range(6):
        store.commit([put(f"c{number}:1", {})])
        assert len(values._collections) <= 3
    assert [one.name for one in store.collections()] == [f"c{number}" for number in range(6)]


HALF: dict[str, Any] = {"t": "x" * (limits.VALUE_MAX_BYTES // 2)}
UNMET: dict[str, tuple[type[errors.EngineError], str, list[Mutation], list[Any]]] = {
    "a precondition": (
        errors.PreconditionFailed,
        "/preconditions/1",
        [put("a:2", {})],
        [require("a:1", "present"), require("a:1", "absent")],
    ),
    "another member": (
        errors.PreconditionFailed,
        "/preconditions/0",
        [put("a:2", {})],
        [require("a:1", "equals", pointer="/none", value=1)],
    ),
    "a version": (errors.PreconditionFailed, "/mutations/1", [put("a:2", {}), put("a:1", {}, if_version=7)], []),
    "an insert": (errors.PreconditionFailed, "/mutations/1", [put("a:2", {}), put("a:1", {}, kind="insert")], []),
    "a merge of nothing": (errors.RecordNotFound, "/mutations/1", [put("a:2", {}), put("a:3", {}, kind="merge")], []),
    "a merge that grows too large": (
        errors.InvalidValue,
        "/mutations/1/value",
        [put("a:2", {}), put("a:1", {"u": HALF["t"]}, kind="merge")],
        [],
    ),
}


@pytest.mark.parametrize("case", UNMET)
def test_what_does_not_hold_of_a_request_is_named_by_its_place(case: str, tmp_path: Path) -> None:
    kind, pointer, mutations, preconditions = UNMET[case]
    with Store.open(tmp_path / "s") as store:  # with segments that take a value of the largest size
        store.commit([put("a:1", HALF)])
        with pytest.raises(kind) as refused:
            store.commit(mutations, preconditions=preconditions)
        assert (refused.value.details["pointer"], refused.value.committed) == (pointer, False)
        assert store.head().sequence == 1
