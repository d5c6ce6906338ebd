"""Activating a contract: while others write, when processes die over it, and with processes racing on it."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import ContractInfo, Retention, Store, errors, limits
from tests.engine.hooks import HookedFiles
from tests.engine.kit import boot, delete, put, vanish

ROOT = Path(__file__).resolve().parents[2]
CONTRACT: dict[str, Any] = {
    "collections": {
        "a": {"unique": ["u"], "schema": {"properties": {"n": {"type": "integer"}}}},
        "b": {"references": [{"field": "a", "collection": "a"}]},
    }
}
STEPS = (
    "contract checked",
    "contract proposed",
    "contract indexes built",
    "contract checked again",
    "contract activated",
)


class Acting:
    """Files that do something once, the first time a step is reached."""

    def __init__(self) -> None:
        self.at: tuple[str, Callable[[], None]] | None = None
        self.files = HookedFiles(self._hook)

    def _hook(self, name: str) -> None:
        if self.at is not None and self.at[0] == name:
            act, self.at = self.at[1], None
            act()


@pytest.fixture
def acting(tmp_path: Path) -> Any:
    acting = Acting()
    with Store.open(tmp_path / "s", files=acting.files, durability="os") as store:
        store.commit([put(f"a:{n}", {"u": n, "n": n}) for n in range(30)])
        store.commit([put(f"b:{n}", {"a": str(n)}) for n in range(20)])
        yield acting, store


BREAKING: dict[str, Callable[[Store], Any]] = {
    "schema": lambda store: store.commit([put("a:x", {"n": "no"})]),
    "unique": lambda store: store.commit([put("a:x", {"u": 7})]),
    "reference": lambda store: store.commit([put("b:x", {"a": "nobody"})]),
    "referenced": lambda store: store.commit([delete("a:3")]),
}


@pytest.mark.parametrize("rule", BREAKING)
@pytest.mark.parametrize("step", STEPS)
def test_what_breaks_the_contract_while_it_is_activated_is_refused_on_one_side(
    acting: tuple[Acting, Store], step: str, rule: str
) -> None:
    hooks, store = acting
    refused: list[str] = []
    indexed = threading.Event()

    def act() -> None:
        try:
            BREAKING[rule](store)
        except errors.ValidationFailed:
            refused.append(rule)
        indexed.set()

    hooks.at = (step, act)
    try:
        store.activate_contract(CONTRACT)
    except errors.ContractBroken as broken:
        assert not refused and [one["count"] for one in broken.details["report"]["breaches"]] == [1]
        assert store.contract() == ContractInfo(revision=0, sequence=0, contract={"collections": {}}, pending=None)
        BREAKING[rule](store)
    else:
        assert refused == [rule] and store.contract().revision == 1
        with pytest.raises(errors.ValidationFailed):
            BREAKING[rule](store)
    assert indexed.is_set()
    # From the proposal on writers are held to it, as far as its indexes have come.
    by_index = step == "contract proposed" and rule in ("unique", "referenced")
    assert (not refused) == (step == "contract checked" or by_index)
    assert store.verify().good


@pytest.mark.parametrize("step", ["contract checked", "contract proposed", "contract indexes built"])
def test_of_two_activations_at_once_one_is_told_of_the_other(acting: tuple[Acting, Store], step: str) -> None:
    hooks, store = acting
    other = {"collections": {"a": {"unique": ["n"]}}}
    hooks.at = (step, lambda: store.activate_contract(other, if_revision=0) and None)
    with pytest.raises(errors.ContractConflict):
        store.activate_contract(CONTRACT)
    info = store.contract()
    assert info.pending is None and info.revision == 1 and list(info.contract["collections"]) == ["a"]  # type: ignore[arg-type,call-overload,index]
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("a:x", {"n": 3})])
    store.commit([put("a:x", {"u": 3}), put("b:x", {"a": "nobody"})])
    assert store.verify().good


def test_rows_written_while_indexes_are_built_are_held_to_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INDEX_BATCH_RECORDS", 20)
    batches = 0
    told: list[str] = []

    def hook(name: str) -> None:
        nonlocal batches
        if name == "index batch committed":
            batches += 1
            if batches % 5 == 1:
                thread = threading.Thread(target=write, args=(batches,))
                thread.start()
                threads.append(thread)

    def write(batch: int) -> None:
        for key, value in ((f"a:new{batch}", {"u": f"new{batch}"}), (f"a:again{batch}", {"u": 3})):
            try:
                store.commit([put(key, value)])
                told.append(f"{key} in")
            except errors.ValidationFailed:
                told.append(f"{key} refused")

    threads: list[threading.Thread] = []
    with Store.open(tmp_path / "s", files=HookedFiles(hook), durability="os") as store:
        store.commit([put(f"a:{n:04d}", {"u": n}) for n in range(600)])
        store.activate_contract(CONTRACT)
        for thread in threads:
            thread.join(20)
        assert batches >= 30 and len(threads) >= 6
        assert len([one for one in told if one.endswith("refused")]) == len(threads)
        values = [one.value["u"] for one in store.query("a", limit=1000).records]
        assert len(values) == len(set(map(str, values))) == 600 + len(threads)
        assert store.verify().good


DYING = """
import sys
from pathlib import Path
from feltdb_engine import Store
from tests.engine.hooks import HookedFiles, die_at
from tests.engine.test_activation import CONTRACT
directory, step, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = Store.open(directory, files=HookedFiles(die_at(step, after)))
store.activate_contract(CONTRACT)
"""


@pytest.mark.parametrize(
    ("step", "after"),
    [
        *((step, 0) for step in STEPS),
        ("append", 0),
        ("view committed", 1),
        ("index batch done", 0),
    ],
)
def test_a_process_that_dies_over_an_activation_leaves_it_proposed_or_done(
    tmp_path: Path, step: str, after: int
) -> None:
    directory = tmp_path / "s"
    with Store.open(directory, host=boot(1)) as store:
        store.commit([put(f"a:{n}", {"u": n, "n": n}) for n in range(30)])
        store.commit([put(f"b:{n}", {"a": str(n)}) for n in range(20)])
    dying = subprocess.run(
        [sys.executable, "-c", DYING, str(directory), step, str(after)], cwd=ROOT, capture_output=True, timeout=60
    )
    assert dying.returncode == -9, dying.stderr.decode()
    with Store.open(directory) as store:
        info = store.contract()
        held = info.pending is not None or info.revision == 1
        for breaks in BREAKING.values():
            if held:
                with pytest.raises(errors.ValidationFailed):
                    breaks(store)
        assert store.verify().good
        if info.revision == 0:
            assert store.withdraw_contract() == (info.pending is not None)
            assert not store.withdraw_contract()
        again = store.activate_contract(CONTRACT)
        assert again.revision == 1 and again.pending is None
        for breaks in BREAKING.values():
            with pytest.raises(errors.ValidationFailed):
                breaks(store)
        assert store.verify().good


def test_a_contract_outlives_compaction_and_a_view_made_from_the_snapshot(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", segment_bytes=1 << 16, host=boot(1))
    store.activate_contract(CONTRACT)
    for number in range(20):
        store.commit([put(f"a:{number}", {"u": number, "fill": "x" * 9000}), put(f"b:{number}", {"a": str(number)})])
    info = store.contract()
    assert store.compact(Retention(age_ms=0), now_ms=1 << 50).floor > 1
    past = store.as_of(store.head().sequence)
    store.commit([delete("b:3"), put("a:3", {"u": "three"})])
    with pytest.raises(errors.FeedCompacted):
        past.get("a:3")
    assert past.get("a:4") is not None and past.count("b") == 20
    vanish(store)
    with Store.open(tmp_path / "s", create=False, host=boot(2)) as store:
        assert store.contract() == info and store.verify().good
        for change in (put("a:x", {"u": 4}), put("a:x", {"n": "no"}), put("b:x", {"a": "x"}), delete("a:4")):
            with pytest.raises(errors.ValidationFailed):
                store.commit([change])
        store.commit([delete("a:3"), put("a:x", {"u": 3})])


RACER = """
import random, sys
from feltdb_engine import Mutation, Store, errors
directory, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
choose = random.Random(int(name))
def put(collection, id, value):
    return Mutation(kind="put", collection=collection, id=id, value=value)
store = Store.open(directory, durability="os")
print("ready", flush=True)
sys.stdin.readline()
won = refused = 0
for number in range(rounds):
    slot = str(choose.randrange(20))
    act = choose.randrange(4)
    if act == 0:
        changes = [put("a", f"{name}-{number}", {"u": number})]
    elif act == 1:
        changes = [put("a", slot, {"u": f"{name}-{number}"})]
    elif act == 2:
        changes = [Mutation(kind="delete", collection="a", id=slot)]
    else:
        changes = [put("b", f"{name}-{choose.randrange(5)}", {"a": slot})]
    try:
        store.commit(changes)
        won += 1
    except errors.ValidationFailed:
        refused += 1
store.close()
print(won, refused, flush=True)
"""


def test_processes_racing_on_unique_fields_and_references_break_no_rule(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", durability="os") as store:
        store.activate_contract(CONTRACT)
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, str(tmp_path / "s"), str(number), "250"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(4)
        ]
        try:
            for one in racers:
                assert one.stdout is not None and one.stdout.readline() == "ready\n"
            for one in racers:
                assert one.stdin is not None
                one.stdin.write("\n")
                one.stdin.flush()
            told = [one.communicate(timeout=120)[0].split() for one in racers]
        finally:
            for one in racers:
                one.kill()
                one.wait()
        won, refused = (sum(int(words[place]) for words in told) for place in (0, 1))
        assert won + refused == 1000 and won > 100 and refused > 100
        rows = store.query("a", limit=1000).records
        assert len({str(one.value["u"]) for one in rows}) == len(rows)
        ids = {one.id for one in rows}
        assert all(one.value["a"] in ids for one in store.query("b", limit=1000).records)
        assert store.check_contract(CONTRACT).breaches == () and store.verify().good
