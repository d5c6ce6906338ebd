"""Contracts: what breaks one is never committed, whatever the order, the process or the moment of its activation."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feltdb_engine import Mutation, Store, errors
from feltdb_engine.backup import restore
from feltdb_engine.decide import merge_patch
from feltdb_engine.enforcing import Rules
from feltdb_engine.values import same_json
from tests.engine.kit import boot, delete, put

ROOT = Path(__file__).resolve().parents[2]
SHOP: dict[str, Any] = {
    "collections": {
        "customers": {
            "schema": {
                "type": "object",
                "properties": {"email": {"type": "string", "format": "email"}, "age": {"minimum": 0}},
            },
            "unique": ["email", ["shop", "number"]],
        },
        "orders": {"references": [{"field": "by.customer", "collection": "customers"}]},
    }
}


def faults(refused: pytest.ExceptionInfo[errors.ValidationFailed]) -> list[tuple[int, str, str]]:
    """Mutation, rule and pointer of each error."""
    return [(one["mutation"], one["rule"], one["pointer"]) for one in refused.value.details["errors"]]


def refused_with(store: Store, *changes: Any) -> list[tuple[int, str, str]]:
    head = store.head()
    with pytest.raises(errors.ValidationFailed) as refused:
        store.commit(list(changes))
    assert refused.value.committed is False and store.head() == head
    return faults(refused)


@pytest.fixture
def shop(store: Store) -> Store:
    info = store.activate_contract(SHOP)
    assert info.revision == 1 and info.pending is None
    return store


def test_a_value_is_held_to_its_schema_by_every_kind_of_mutation(shop: Store) -> None:
    shop.commit([put("customers:1", {"email": "a@b", "age": 5}), put("free:1", {"email": 7})])
    for kind in ("put", "update", "merge"):
        assert refused_with(shop, put("customers:1", {"email": 7, "age": -1}, kind=kind)) == [
            (0, "schema", "/mutations/0/value/email"),
            (0, "schema", "/mutations/0/value/age"),
        ]
    assert refused_with(shop, put("free:2", {}), put("customers:2", {"age": -1}, kind="insert")) == [
        (1, "schema", "/mutations/1/value/age")
    ]
    shop.commit([put("customers:1", {"age": None}, kind="merge")])
    assert shop.get("customers:1").value == {"email": "a@b"}  # type: ignore[union-attr]
    shop.commit([delete("customers:1")])


def test_unique_means_what_the_transaction_leaves_behind(shop: Store) -> None:
    shop.commit([put("customers:1", {"email": "a@b"}), put("customers:2", {"email": "c@d"})])
    assert refused_with(shop, put("customers:3", {"email": "a@b"})) == [(0, "unique", "/mutations/0/value/email")]
    assert refused_with(shop, put("customers:3", {"email": "x@y"}), put("customers:4", {"email": "x@y"})) == [
        (1, "unique", "/mutations/1/value/email")
    ]
    shop.commit([put("customers:1", {"email": "c@d"}), put("customers:2", {"email": "a@b"})])
    shop.commit([put("customers:3", {"email": "a@b"}), delete("customers:2")])
    shop.commit([put("customers:3", {"email": "a@b", "age": 1})])
    for number in range(3):
        shop.commit(
            [put(f"customers:n{number}", {"shop": 1, "number": None}), put(f"customers:m{number}", {"shop": 1})]
        )
    shop.commit([put("customers:5", {"shop": 1, "number": 1}), put("customers:6", {"shop": 1, "number": 1.0})])
    shop.commit([put("customers:7", {"shop": 1, "number": True}), put("customers:8", {"shop": 1, "number": "1"})])
    shop.commit([put("customers:9", {"shop": 0.0, "number": [0.0]})])
    assert refused_with(shop, put("customers:a", {"shop": -0.0, "number": [-0.0]}))
    assert refused_with(shop, put("customers:a", {"number": 1, "shop": 1})) == [
        (0, "unique", "/mutations/0/value/shop")
    ]
    assert refused_with(shop, put("customers:5", {"email": "c@d"}, kind="merge"))


def test_references_lead_to_records_and_hold_them(shop: Store) -> None:
    def order(customer: Any) -> dict[str, Any]:
        return {"by": {"customer": customer}}

    for nobody in ("9", 9, "x" * 300, ["1"], ""):
        assert refused_with(shop, put("orders:1", order(nobody))) == [
            (0, "reference", "/mutations/0/value/by/customer")
        ]
    shop.commit([put("orders:1", order("1")), put("customers:1", {})])
    shop.commit([put("orders:2", order(None)), put("orders:3", {"by": {}}), put("orders:4", {"by": 1})])
    assert refused_with(shop, delete("customers:1")) == [(0, "referenced", "/mutations/0")]
    assert refused_with(shop, delete("customers:1"), put("orders:2", order("1"))) == [
        (0, "referenced", "/mutations/0"),
        (1, "reference", "/mutations/1/value/by/customer"),
    ]
    assert refused_with(shop, delete("customers:1"), put("orders:1", order("1"))) == [
        (1, "reference", "/mutations/1/value/by/customer")
    ]
    shop.commit([put("customers:2", {}), put("orders:1", order("2")), delete("customers:1")])
    shop.commit([delete("customers:2"), delete("orders:1")])
    assert refused_with(shop, put("orders:1", order("2")))


def test_a_record_may_reference_its_own_collection_and_itself(store: Store) -> None:
    tree = {"collections": {"nodes": {"references": [{"field": "up", "collection": "nodes"}]}}}
    store.activate_contract(tree)
    store.commit([put("nodes:1", {"up": "1"}), put("nodes:2", {"up": "1"})])
    assert refused_with(store, delete("nodes:1")) == [(0, "referenced", "/mutations/0")]
    store.commit([delete("nodes:2")])
    store.commit([delete("nodes:1")])


@pytest.mark.parametrize(
    ("contract", "pointer"),
    [
        ({}, ""),
        ({"collections": []}, ""),
        ({"collections": {"a:b": {}}}, "/collections/a:b"),
        ({"collections": {"a": {"indexes": []}}}, "/collections/a"),
        ({"collections": {"a": {"schema": []}}}, "/collections/a/schema"),
        ({"collections": {"a": {"schema": {"type": "x"}}}}, "/collections/a/schema/type"),
        ({"collections": {"a": {"unique": "b"}}}, "/collections/a/unique"),
        ({"collections": {"a": {"unique": [[]]}}}, "/collections/a/unique/0"),
        ({"collections": {"a": {"unique": [["b", "b"]]}}}, "/collections/a/unique/0"),
        ({"collections": {"a": {"unique": ["b", ["b"]]}}}, "/collections/a"),
        ({"collections": {"a": {"unique": [[1]]}}}, "/collections/a/unique/0"),
        ({"collections": {"a": {"references": [{"field": "b"}]}}}, "/collections/a/references/0"),
        (
            {"collections": {"a": {"references": [{"field": "", "collection": "c"}]}}},
            "/collections/a/references/0/field",
        ),
        (
            {"collections": {"a": {"references": [{"field": "b", "collection": "-"}]}}},
            "/collections/a/references/0/collection",
        ),
        ({"collections": {"a": {"unique": [f"f{n}" for n in range(17)]}}}, "/collections/a"),
        ({"collections": {f"c{n}": {} for n in range(65)}}, "/collections"),
        ({"collections": {"a": {"schema": {"const": 1 << 70}}}}, "/collections/a/schema/const"),
    ],
)
def test_what_is_no_contract_is_refused_with_its_place(store: Store, contract: Any, pointer: str) -> None:
    for call in (store.check_contract, store.activate_contract):
        with pytest.raises(errors.ContractInvalid) as refused:
            call(contract)
        assert refused.value.details["pointer"] == pointer
    assert store.contract().revision == 0


def broken(store: Store) -> dict[tuple[str, str, tuple[str, ...]], tuple[int, list[str]]]:
    report = store.check_contract(SHOP)
    assert report.complete
    return {
        (one.collection, one.rule, one.fields): (one.count, [sample.id for sample in one.samples])
        for one in report.breaches
    }


def test_what_stored_records_break_is_counted_sampled_and_changes_nothing(store: Store) -> None:
    rows = [put(f"customers:{n:03d}", {"email": f"{n // 2}@x" if n < 40 else n, "age": n}) for n in range(60)]
    store.commit(rows + [put(f"orders:{n}", {"by": {"customer": f"{n:03d}"}}) for n in range(59, 63)])
    assert broken(store) == {
        ("customers", "schema", ()): (20, [f"{n:03d}" for n in range(40, 50)]),
        ("customers", "unique", ("email",)): (20, [f"{n:03d}" for n in range(1, 20, 2)]),
        ("orders", "reference", ("by.customer",)): (3, ["60", "61", "62"]),
    }
    head, indexes = store.head(), store.indexes()
    with pytest.raises(errors.ContractBroken) as refused:
        store.activate_contract(SHOP)
    report = refused.value.details["report"]
    assert sum(one["count"] for one in report["breaches"]) == 43 and report["checked"] == 64
    unique = next(one for one in report["breaches"] if one["rule"] == "unique")
    assert unique["samples"][0]["message"] == "customers:000 has it too."
    assert (store.head(), store.indexes(), store.contract().revision) == (head, indexes, 0)
    store.commit([put("customers:000", {"email": 7})])
    assert store.verify().good


def test_a_contract_takes_the_place_of_the_one_before(shop: Store) -> None:
    assert shop.indexes() == [] and not shop.drop_index("customers", "unique:email")
    again = shop.activate_contract(SHOP)
    assert again.revision == 1, "the same one changes nothing"
    with pytest.raises(errors.ContractConflict) as conflict:
        shop.activate_contract({"collections": {}}, if_revision=0)
    assert conflict.value.details == {"revision": 1}
    shop.commit([put("customers:1", {"email": "a@b"})])
    less = {"collections": {"customers": {"unique": [["shop", "number"]]}}}
    assert shop.activate_contract(less, if_revision=1).revision == 2
    shop.commit([put("customers:2", {"email": "a@b", "shop": 1, "number": 2}), put("customers:3", {"email": 7})])
    assert refused_with(shop, put("customers:4", {"shop": 1, "number": 2}))
    shop.commit([put("orders:1", {"by": {"customer": "nobody"}})])
    assert shop.activate_contract({"collections": {}}).contract == {"collections": {}}
    shop.commit([put("customers:4", {"shop": 1, "number": 2})])
    assert shop.verify().good
    assert shop._core.view.env.stat() and shop.stats().records == 5


def test_a_contract_survives_rebuilding_reopening_backup_and_restore(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.activate_contract(SHOP)
        store.commit([put("customers:1", {"email": "a@b"}), put("orders:1", {"by": {"customer": "1"}})])
        info = store.contract()
        store.rebuild_view()
        assert store.contract() == info and refused_with(store, put("customers:2", {"email": "a@b"}))
        store.backup(tmp_path / "backup")
    with Store.open(tmp_path / "s", host=boot(2)) as store:
        assert store.contract() == info and refused_with(store, delete("customers:1"))
        assert store.verify().good
    restore(tmp_path / "backup", tmp_path / "again")
    with Store.open(tmp_path / "again") as store:
        assert store.contract() == info
        assert refused_with(store, put("customers:2", {"email": 1})) and refused_with(store, delete("customers:1"))
        assert store.verify().good


def test_checking_ends_at_its_deadline_and_tells_how_far_it_came(store: Store) -> None:
    store.commit([put(f"customers:{n}", {"email": n}) for n in range(2000)])
    report = store.check_contract(SHOP, deadline=time.monotonic() - 1)
    assert (report.complete, report.checked) == (False, 0)
    told: list[tuple[int, int]] = []
    assert store.check_contract(SHOP, progress=lambda done, total: told.append((done, total))).checked == 2000
    assert told == [(done, 2000) for done in (500, 1000, 1500, 2000)]
    store.commit([delete(f"customers:{n}") for n in range(2000)])
    with pytest.raises(errors.DeadlineExceeded):
        store.activate_contract(SHOP, deadline=time.monotonic() - 1)
    assert store.contract().revision == 0 and store.contract().pending is None


def test_a_known_transaction_answers_first_and_a_value_is_checked_outside_the_turn(
    shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop.commit([put("customers:1", {"email": "a@b"})], transaction_id="t")
    with pytest.raises(errors.ContractBroken):
        shop.activate_contract({"collections": {"customers": {"schema": {"required": ["name"]}}}})
    in_turn: list[bytes] = []
    check = Rules.check

    def watched(self: Rules, collection: bytes, data: bytes) -> Any:
        if shop._core.turn._thread.locked():
            in_turn.append(data)
        return check(self, collection, data)

    monkeypatch.setattr(Rules, "check", watched)
    assert shop.commit([put("customers:1", {"email": "a@b"})], transaction_id="t").revision == first.revision
    shop.commit([put("customers:1", {"age": 3}, kind="merge"), put("customers:2", {})])
    assert refused_with(shop, put("customers:3", {"email": 1}))
    assert in_turn == []


IDS = st.sampled_from(["1", "2", "3"])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "u": st.sampled_from([1, 1.0, "1", True, None]),
        "v": st.sampled_from([0, 1]),
        "r": st.sampled_from(["1", "2", None, 5]),
    },
)
CHANGES = st.builds(
    lambda kind, collection, one, value: (
        delete(f"{collection}:{one}") if kind == "delete" else put(f"{collection}:{one}", value, kind=kind)
    ),
    st.sampled_from(["put", "put", "merge", "delete"]),
    st.sampled_from(["a", "b"]),
    IDS,
    VALUES,
)
RULES: dict[str, Any] = {
    "collections": {
        "a": {"unique": ["u", ["v", "r"]], "schema": {"properties": {"v": {"const": 1}}}},
        "b": {"unique": ["u"], "references": [{"field": "r", "collection": "a"}]},
    }
}


def key_of(change: Mutation) -> str:
    return f"{change.collection}:{change.id}"


def holds(live: dict[str, Any]) -> bool:
    """Whether a whole state keeps RULES, said the plain way."""

    def values(collection: str) -> list[Any]:
        return [value for key, value in live.items() if key.startswith(collection + ":")]

    def twice(rows: list[Any], fields: tuple[str, ...]) -> bool:
        there = [[row[f] for f in fields] for row in rows if all(row.get(f) is not None for f in fields)]
        return any(same_json(one, other) for at, one in enumerate(there) for other in there[:at])

    if twice(values("a"), ("u",)) or twice(values("a"), ("v", "r")) or twice(values("b"), ("u",)):
        return False
    if any(row.get("v", 1) != 1 for row in values("a")):
        return False
    return all(row.get("r") is None or (f"a:{row['r']}" in live and row["r"] != 5) for row in values("b"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("contracts") / "s", durability="os") as store:
        yield store


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.lists(CHANGES, max_size=4),
    groups=st.lists(
        st.lists(CHANGES, min_size=1, max_size=3, unique_by=lambda one: (one.collection, one.id)), max_size=6
    ),
)
def test_a_transaction_commits_exactly_when_what_it_leaves_behind_keeps_the_contract(
    shared: Store, before: Any, groups: Any
) -> None:
    shared.activate_contract({"collections": {}})
    keys = [f"{collection}:{one}" for collection in "ab" for one in "123"]
    shared.commit([delete(key) for key in keys])
    live: dict[str, Any] = {}
    for one in before:
        if one.kind == "merge":
            continue
        shared.commit([one])
        if one.kind == "delete":
            live.pop(key_of(one), None)
        else:
            live[key_of(one)] = one.value
    good = holds(live)
    assert (not shared.check_contract(RULES).breaches) == good
    if not good:
        with pytest.raises(errors.ContractBroken):
            shared.activate_contract(RULES)
        return
    shared.activate_contract(RULES)
    for group in groups:
        after, absent = dict(live), False
        for one in group:
            if one.kind == "delete":
                after.pop(key_of(one), None)
            elif one.kind == "merge":
                absent = absent or key_of(one) not in live
                after[key_of(one)] = merge_patch(after.get(key_of(one), {}), one.value)
            else:
                after[key_of(one)] = one.value
        try:
            shared.commit(group)
            assert holds(after) and not absent, "committed what breaks the contract"
            live = after
        except errors.RecordNotFound:
            assert absent
        except errors.ValidationFailed:
            assert not holds(after), "refused what keeps the contract"
    found = {one.key: one.value for collection in "ab" for one in shared.page(collection).records}
    assert found == live
