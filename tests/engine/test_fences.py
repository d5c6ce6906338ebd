"""Read bases: a fenced commit succeeds if and only if what was read is still so, phantoms included."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feltdb_engine import Mutation, Predicate, Store, errors, limits
from feltdb_engine.where import compile_where
from tests.engine.kit import boot, delete, put

ROOT = Path(__file__).resolve().parents[2]
KEYS = ["a:1", "a:2", "a:3", "b:1", "b:2"]
WHERES: list[Any] = [
    None,
    {"field": "n", "op": "eq", "value": 1},
    {"field": "n", "op": "gte", "value": 2},
    {"not": {"field": "n", "op": "exists", "value": True}},
]
changes = st.builds(
    lambda key, value: delete(key) if value is None else put(key, {} if value < 0 else {"n": value}),
    st.sampled_from(KEYS),
    st.one_of(st.none(), st.integers(-1, 3)),
)
writes = st.lists(st.lists(changes, min_size=1, max_size=2, unique_by=lambda one: (one.collection, one.id)), max_size=4)
conditions = st.builds(
    lambda collection, where: Predicate(collection=collection, where=where),
    st.sampled_from("ab"),
    st.sampled_from(WHERES),
)
Seen = tuple[list[int], list[list[tuple[str, int]]]]


def seen(store: Store, keys: list[str], predicates: list[Predicate]) -> Seen:
    """What a basis over these rests on: versions, and ids and versions of what matches."""
    versions = [one.version if one else 0 for one in store.get_many(keys)]
    matches = []
    for each in predicates:
        test = compile_where(each.where)
        matches.append([(one.id, one.version) for one in store.page(each.collection).records if test(one.value)])
    return versions, matches


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("fences") / "s", durability="os", segment_bytes=1 << 20) as store:
        store.declare_index("b", ["n"])
        yield store


def between(store: Store, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something after the next fenced commit has proved its fences, and before it has the turn."""
    plain = store._writer._decided

    def decided(request: Any, until: float) -> Any:
        monkeypatch.setattr(store._writer, "_decided", plain)
        act()
        return plain(request, until)

    monkeypatch.setattr(store._writer, "_decided", decided)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=writes,
    keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    predicates=st.lists(conditions, max_size=2),
    after=writes,
    proved=writes,
    walk=st.sampled_from([1, 300, 1 << 20]),
)
def test_a_fenced_commit_succeeds_exactly_when_nothing_read_has_changed(
    shared: Store, before: Any, keys: Any, predicates: Any, after: Any, proved: Any, walk: int
) -> None:
    if not keys and not predicates:
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(limits, "FENCE_WALK_MAX_BYTES", walk)
        for group in before:
            shared.commit(group)
        basis = shared.read_basis(keys, predicates)
        then = seen(shared, keys, predicates)
        for group in after:
            shared.commit(group)
        # Broken in between and whole again may be told either way: it was broken while the call ran.
        middle = seen(shared, keys, predicates)

        def act() -> None:
            for group in proved:
                shared.commit(group)

        between(shared, act, monkeypatch)
        revision: int | None
        try:
            revision = shared.commit([put("c:1", {})], fences=[basis.token]).revision
        except errors.FenceBroken as broken:
            revision = None
            assert broken.committed is False and broken.details["fence"] == 0
        now = seen(shared, keys, predicates)
        assert (revision is not None) == (then == now) or (revision is None and then != middle and then == now)


def test_a_broken_fence_says_which_part_broke(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 2})])
    n1 = Predicate(collection="a", where=WHERES[1])
    basis = store.read_basis(["a:1", "a:9"], [n1])
    assert [one and one.version for one in basis.records] == [1, None]
    other = store.read_basis(["b:1"])
    store.commit([put("a:3", {"n": 1})])
    with pytest.raises(errors.FenceBroken) as broken:
        store.commit([put("c:1", {})], fences=[other.token, basis.token])
    assert broken.value.details == {
        "fence": 1, "kind": "predicate", "predicate": 0, "collection": "a", "id": None,
    }  # fmt: skip
    store.commit([put("a:9", {})])
    with pytest.raises(errors.FenceBroken) as broken:
        store.commit([put("c:1", {})], fences=[other.token, basis.token])
    assert broken.value.details == {
        "fence": 1, "kind": "record", "collection": "a", "id": "9", "expected": 0, "actual": 1,
    }  # fmt: skip
    store.commit([put("c:1", {})], fences=[other.token])


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (put("a:3", {"n": 1}), "3"),
        (delete("a:1"), "1"),
        (put("a:1", {"n": 2}), "1"),
        (put("a:1", {"n": 1}), "1"),
        (put("a:2", {"n": 1}), "2"),
        (put("a:2", {"n": 3}), None),
        (put("b:1", {"n": 1}), None),
    ],
)
def test_what_changes_after_the_proof_is_seen_in_the_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch, act: Mutation, named: str | None
) -> None:
    store.commit([put("a:1", {"n": 1})])
    basis = store.read_basis(predicates=[Predicate(collection="a", where=WHERES[1])])
    store.commit([put("a:2", {"n": 2})])
    between(store, lambda: store.commit([act]) and None, monkeypatch)
    if named is None:
        store.commit([put("c:1", {})], fences=[basis.token])
        return
    with pytest.raises(errors.FenceBroken) as broken:
        store.commit([put("c:1", {})], fences=[basis.token])
    assert broken.value.details["id"] == named
    assert store.get("c:1") is None


def test_a_known_transaction_answers_first_though_it_broke_its_own_fence(store: Store) -> None:
    store.commit([put("a:1", {})])
    basis = store.read_basis(["a:1"], [Predicate(collection="a")])
    first = store.commit([put("a:1", {"n": 1})], fences=[basis.token], transaction_id="t")
    again = store.commit([put("a:1", {"n": 1})], fences=[basis.token], transaction_id="t")
    assert again.duplicate and again.revision == first.revision
    with pytest.raises(errors.IdempotencyConflict):
        store.commit([put("a:1", {"n": 1})], transaction_id="t")
    with pytest.raises(errors.FenceBroken):
        store.commit([put("a:1", {"n": 1})], fences=[basis.token])


def test_nothing_is_looked_at_where_nothing_of_the_collection_was_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put(f"a:{n}", {"n": n}) for n in range(50)])
    basis = store.read_basis(predicates=[Predicate(collection="a")])
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 10)
    for number in range(3):
        store.commit([put(f"other:{number}", {})], fences=[basis.token])
    store.commit([put("a:50", {})])
    with pytest.raises(errors.ScanLimitExceeded):
        store.commit([put("other:9", {})], fences=[basis.token])
    with pytest.raises(errors.ScanLimitExceeded):
        store.read_basis(predicates=[Predicate(collection="a")])


def test_a_basis_of_before_a_restore_or_of_another_store_fences_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.commit([put("a:1", {})])
        token = store.read_basis(["a:1"]).token
        store.backup(tmp_path / "backup")
    from feltdb_engine.backup import restore

    restore(tmp_path / "backup", tmp_path / "again")
    with Store.open(tmp_path / "again") as again:
        with pytest.raises(errors.FenceBroken) as broken:
            again.commit([put("a:2", {})], fences=[token])
        assert broken.value.details == {"fence": 0, "kind": "timeline"}
    with Store.open(tmp_path / "other") as other, pytest.raises(errors.InvalidQuery) as foreign:
        other.commit([put("a:2", {})], fences=[token])
    assert foreign.value.details["pointer"] == "/fences/0"


def test_what_is_no_basis_is_refused(store: Store) -> None:
    token = store.read_basis(["a:1"]).token
    changed = token[:-4] + ("BBBB" if token.endswith("AAAA") else "AAAA")
    for bad in ["", "x", token[:-1], changed, "ä", 1, token + "A" * limits.BASIS_MAX_CHARS]:
        with pytest.raises(errors.InvalidQuery):
            store.commit([put("a:1", {})], fences=[bad])  # type: ignore[list-item]
    with pytest.raises(errors.TransactionTooLarge):
        store.commit([put("a:1", {})], fences=[token] * (limits.FENCES_MAX + 1))
    with pytest.raises(errors.InvalidQuery):
        store.read_basis()
    with pytest.raises(errors.InvalidQuery):
        store.read_basis([f"a:{n}" for n in range(limits.BASIS_MAX_RECORDS + 1)])
    with pytest.raises(errors.InvalidQuery):
        store.read_basis([f"a:{n:0250d}" for n in range(limits.BASIS_MAX_RECORDS)])
    with pytest.raises(errors.InvalidQuery) as place:
        store.read_basis(predicates=[Predicate(collection="a"), Predicate(collection="a", where={"all": []})])
    assert place.value.details["pointer"] == "/predicates/1/where/all"
    with pytest.raises(errors.InvalidQuery):
        store.read_basis(predicates=[Predicate(collection="a")] * (limits.BASIS_MAX_PREDICATES + 1))


def test_a_fenced_commit_whose_proofs_are_always_overtaken_ends_at_its_deadline(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put("a:1", {"n": 1})])
    basis = store.read_basis(predicates=[Predicate(collection="a", where=WHERES[1])])
    monkeypatch.setattr(limits, "FENCE_WALK_MAX_BYTES", 1)
    plain = store._writer._decided

    def overtaken(request: Any, until: float) -> Any:
        if request.fences:
            store.commit([put("a:2", {"n": 2})])
        return plain(request, until)

    monkeypatch.setattr(store._writer, "_decided", overtaken)
    with pytest.raises(errors.DeadlineExceeded) as late:
        store.commit([put("c:1", {})], fences=[basis.token], deadline=time.monotonic() + 0.3)
    assert late.value.committed is False and store.get("c:1") is None


RACER = """
import sys
from feltdb_engine import Mutation, Predicate, Store, errors
directory, name, slots, fenced = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "fenced"
store = Store.open(directory)
print("ready", flush=True)
sys.stdin.readline()
won = broken = 0
for slot in range(slots):
    taken = Predicate(collection="booking", where={"field": "slot", "op": "eq", "value": slot})
    while True:
        basis = store.read_basis(predicates=[taken])
        if store.count("booking", taken.where):
            break
        booking = Mutation(kind="insert", collection="booking", id=f"{slot}-{name}", value={"slot": slot})
        try:
            store.commit([booking], fences=[basis.token] if fenced else [])
            won += 1
        except errors.FenceBroken:
            broken += 1
store.close()
print(won, broken, flush=True)
"""


def race(directory: Path, racers: int, slots: int, how: str = "fenced") -> tuple[int, int]:
    """Processes that book the same slots; how often they won, and how often a fence broke."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(directory), str(number), str(slots), how],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(racers)
    ]
    try:
        for one in started:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
        told = []
        for one in started:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        for one in started:
            out, _ = one.communicate(timeout=120)
            assert one.returncode == 0
            told.append([int(word) for word in out.split()])
    finally:
        for one in started:
            one.kill()
            one.wait()
    return sum(won for won, _ in told), sum(broken for _, broken in told)


def test_processes_that_book_the_same_slots_each_fenced_with_what_they_saw(tmp_path: Path) -> None:
    slots = 40
    with Store.open(tmp_path / "s") as store:
        store.declare_index("booking", ["slot"])
        won, broken = race(tmp_path / "s", 4, slots)
        assert won == slots and broken > 0
        booked = [one.value["slot"] for one in store.page("booking", limit=1000).records]
        assert sorted(booked) == list(range(slots))
