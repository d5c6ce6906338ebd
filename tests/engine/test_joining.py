"""Directories put together from files of two stores and of several ages of one: rebuild or refusal, never wrong data.

What vouches for a view is forged to speak of the very file that lies there, as where a file system gives numbers again.
"""

import itertools
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import pytest

from feltdb_engine import Retention, Store, errors, host, manifest, positions, trust, view
from feltdb_engine.files import OSFiles
from tests.engine.kit import boot, delete, operations, put, vanish
from tests.torture import seconds, timeout

SEGMENT = 1 << 16
REFUSED = (errors.LogCorrupt, errors.FormatUnsupported)
ALL = Retention(age_ms=0, ids_age_ms=None)
PARTS = ("manifest.json", "log", "snapshots", "view", "trust", "positions")
VIEW, TRUST, POSITIONS = 3, 4, 5

Choice = tuple[str | None, ...]
"""For each part whose it is; None where it is missing."""


class Told(NamedTuple):
    """What a store says of itself: its feed, and what lies in it by key."""

    feed: list[Any]
    records: dict[str, tuple[int, Any]]


@dataclass(frozen=True)
class Age:
    """The files of a store at one moment, by part and name, and what it says."""

    files: dict[str, dict[str, bytes]]
    told: Told


def tell(store: Store) -> Told:
    """What it says by feed, by page, by key, by count and by index, which must agree with each other."""
    records = {}
    for one in store.collections():
        page = store.page(one.name, limit=1000).records
        assert len(page) == store.count(one.name) == one.records
        records.update({record.key: (record.version, record.value) for record in page})
    got = store.get_many(list(records))
    assert [(one.version, one.value) for one in got if one is not None] == list(records.values())
    found = store.query("a", where={"field": "n", "op": "gte", "value": 0}, limit=1000)
    assert {record.key for record in found.records} == {key for key in records if key.startswith("a:")}
    return Told(list(operations(store)), records)


def write(store: Store, of: str, numbers: range) -> None:
    """Commits of the same size, at the same moments, whoever makes them."""
    for number in numbers:
        made = [put(f"a:{number % 9}", {"n": number, "of": of, "body": "x" * 6000})]
        if number % 5 == 4:
            made.append(delete(f"a:{(number - 2) % 9}"))
        store.commit(made, transaction_id=f"t{number}", at_ms=number)


def kept(directory: Path, told: Told) -> Age:
    """All its files as they are now."""
    files = {}
    for part in PARTS:
        path = directory / part
        inside = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
        files[part] = {one.name: one.read_bytes() for one in inside if one.name != "lock.mdb"}
    return Age(files, told)


def grow(directory: Path, of: str) -> Iterator[Age]:
    """A store when it is young, when it is killed in mid-use, and when it was compacted and closed."""
    with Store.open(directory, segment_bytes=SEGMENT, host=boot(1)) as store:
        if of != "cl":
            store.begin_timeline()  # as opening a clone does: frames of all three lie at the same positions
        store.declare_index("a", ["n"])
        write(store, of, range(8))
        told = tell(store)
    yield kept(directory, told)
    store = Store.open(directory, host=boot(1))
    store.begin_timeline()
    write(store, of, range(8, 30))
    told = tell(store)
    vanish(store)
    yield kept(directory, told)
    with Store.open(directory, host=boot(1)) as store:
        store.compact(ALL, now_ms=1 << 50)
        write(store, of, range(30, 40))
        told = tell(store)
    yield kept(directory, told)


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Age]:
    """Three ages of a store, of a clone that went another way at once, and of another store."""
    base = tmp_path_factory.mktemp("ages")
    Store.open(base / "own", segment_bytes=SEGMENT, host=boot(1)).close()
    shutil.copytree(base / "own", base / "clone")
    found = {}
    for name in ("own", "clone", "other"):
        for age, one in zip(("young", "killed", "compacted"), grow(base / name, name[:2]), strict=True):
            found[f"{name} {age}"] = one
    assert len({one.files["log"].keys() for one in found.values() if len(one.files["log"]) < 2}) == 0
    assert found["own compacted"].files["snapshots"] and found["own compacted"].told.feed[0].sequence > 1
    return found


def join(path: Path, ages: dict[str, Age], choice: Choice) -> None:
    """Put a directory together, and let what vouches for a view vouch for this one."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for part, name in zip(PARTS, choice, strict=True):
        inside = path if "." in part or part in ("trust", "positions") else path / part
        inside.mkdir(exist_ok=True)
        for file, data in ages[name].files[part].items() if name is not None else ():
            (inside / file).write_bytes(data)
    vouch(path)


def vouch(path: Path) -> None:
    """Trust file and positions speak of this directory and of the view that lies in it."""
    files, here = OSFiles(), host.identity(path)
    known = trust.read(files, path)
    if known is not None and (path / "view" / "data.mdb").exists():
        place = (*here, boot(1).machine_id)
        there = host.identity(path / "view" / "data.mdb")
        trust.write(files, path, replace(known, directory=place, home=place, view=there))
    if (path / "positions").exists():
        words = positions.Positions(path / "positions").words
        words[5], words[6] = here


def judge(path: Path, told: Told, number: int, *, alien_snapshots: bool = False) -> bool:
    """Refused, twice, or it says exactly this, goes on, and says it again after a reboot. Gives whether it opened.

    Snapshots that were not needed and are not its own are for `verify` to tell.
    """
    try:
        store = Store.open(path, create=False, host=boot(number), wait_s=5)
    except REFUSED:
        with pytest.raises(REFUSED):
            Store.open(path, create=False, host=boot(number), wait_s=5)
        return False
    with store:
        assert tell(store) == told
        assert [one.collection for one in store.indexes()] == ["a"]
        assert {one.kind for one in store.verify().findings} <= ({"snapshot", "view"} if alien_snapshots else set())
        assert store.transaction("t7") is not None and store.transaction("t99") is None
        revision = store.commit([put("b:new", {})]).revision
        assert revision == told.feed[-1].sequence + 1
    with Store.open(path, create=False, host=boot(number + 1)) as store:
        again = tell(store)
        assert (again.feed[:-1], again.feed[-1].key) == (told.feed, "b:new")
        assert again.records == {**told.records, "b:new": (1, {})}
    return True


def wholly(name: str) -> Choice:
    """All parts of one age."""
    return (name,) * len(PARTS)


def replaced(choice: Choice, *changes: tuple[int, str | None]) -> Choice:
    """The choice with other parts."""
    made = list(choice)
    for part, name in changes:
        made[part] = name
    return tuple(made)


def must_open(choice: Choice) -> bool:
    """Whether manifest, log and snapshots are of one age, and nothing else speaks of a later one."""
    vouching = {choice[TRUST], choice[POSITIONS]} - {None}
    return len(set(choice[:VIEW])) == 1 and vouching <= {choice[1]}


def joined(path: Path, ages: dict[str, Age], choices: Iterator[Choice] | list[Choice]) -> None:
    """Put each together and judge it, on the same boot and on another."""
    opened = refused = 0
    for choice, number in itertools.product(choices, (1, 2)):
        assert choice[1] is not None
        join(path, ages, choice)
        try:
            good = judge(path, ages[choice[1]].told, number, alien_snapshots=choice[2] != choice[0])
        except Exception as error:
            error.add_note(f"{dict(zip(PARTS, choice, strict=True))} on boot {number}")
            raise
        assert good or not must_open(choice), choice
        opened, refused = opened + good, refused + (not good)
    print(opened, "opened", refused, "refused")
    assert opened


def test_the_ages_lie_alike(ages: dict[str, Age]) -> None:
    """Otherwise positions alone would tell them apart."""
    for age in ("young", "killed", "compacted"):
        names = [
            {part: list(files) for part, files in ages[f"{of} {age}"].files.items()} for of in ("own", "clone", "other")
        ]
        assert names[0] == names[1] == names[2]


def test_a_log_with_any_view_opens_to_what_the_log_says(quick: Path, ages: dict[str, Age]) -> None:
    views: list[str | None] = [*ages, None]
    joined(quick / "s", ages, [replaced(wholly(log), (VIEW, other)) for log in ages for other in views])


def test_one_part_of_another_age_is_made_right_or_refused(quick: Path, ages: dict[str, Age]) -> None:
    changes = [(part, name) for part in range(len(PARTS)) if part not in (1, VIEW) for name in [*ages, None]]
    own = ["own killed", "own compacted"]
    joined(quick / "s", ages, [replaced(wholly(name), change) for name in own for change in changes if change[0]])
    joined(quick / "s", ages, [replaced(wholly(name), (0, other)) for name in own for other in ages])
    joined(quick / "s", ages, [replaced(wholly(name), (1, other)) for name in own for other in ages])


def test_parts_of_many_ages_are_made_right_or_refused(quick: Path, ages: dict[str, Age]) -> None:
    joined(quick / "s", ages, drawn(ages, random.Random(1), 50))


def drawn(ages: dict[str, Age], choose: random.Random, count: int) -> list[Choice]:
    """Combinations drawn at random; half of them with a log, a manifest and snapshots that belong together."""
    some: list[str | None] = [*ages, None]
    found = []
    for _ in range(count):
        log, other = choose.choice(list(ages)), choose.choice(list(ages))
        base = replaced(wholly(log), (VIEW, choose.choice(some)), (TRUST, choose.choice(some)))
        base = replaced(base, (POSITIONS, choose.choice(some)))
        if choose.random() < 0.5:
            base = replaced(base, (0, other), (2, choose.choice([log, other])))
        found.append(base)
    return found


@pytest.mark.torture
@timeout(0.05)
def test_parts_of_many_more_ages_are_made_right_or_refused(quick: Path, ages: dict[str, Age]) -> None:
    until, seed = time.monotonic() + seconds(0.05), 1
    while time.monotonic() < until:
        seed += 1
        joined(quick / "s", ages, drawn(ages, random.Random(seed), 100))
    print(seed - 1, "hundred combinations")


def history(ages: dict[str, Age], of: str) -> list[Any]:
    """Every operation a store ever had."""
    full = ages[f"{of} killed"].told.feed
    return full + [one for one in ages[f"{of} compacted"].told.feed if one.sequence > full[-1].sequence]


def at(full: list[Any], first: int, last: int) -> Told:
    """What a store said at one sequence, its floor before another."""
    records: dict[str, tuple[int, Any]] = {}
    for one in full[:last]:
        records.pop(one.key, None)
        if one.kind != "delete":
            records[one.key] = (one.version, one.value)
    return Told(full[first - 1 : last], records)


@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_of_another_age_is_never_read_as_ones_own(quick: Path, ages: dict[str, Age], number: int) -> None:
    """Where opening need not read it, reading it is refused. A newer one, which goes on from what is there, is read."""
    path, answers = quick / "s", {"right": 0, "another age": 0, "refused": 0}
    for own, other in itertools.product(ages, repeat=2):
        if own == other or not own.startswith("own"):
            continue
        told = ages[own].told
        for segment in ages[own].files["log"].keys() & ages[other].files["log"].keys():
            join(path, ages, wholly(own))
            (path / "log" / segment).write_bytes(ages[other].files["log"][segment])
            try:
                with Store.open(path, create=False, host=boot(number), wait_s=5) as store:
                    said = tell(store)
            except errors.LogCorrupt:
                answers["refused"] += 1
                continue
            answers["right" if said == told else "another age"] += 1
            lives = [history(ages, name.split()[0]) for name in (own, other)]
            assert said in [at(life, said.feed[0].sequence, said.feed[-1].sequence) for life in lives]
            # Only a newest segment that was emptied, of a store that was not closed, on another boot: it alone knew.
            emptied = number == 2 and "killed" in own and not ages[other].files["log"][segment].strip(b"\0")
            assert said.feed[-1].sequence >= told.feed[-1].sequence or emptied
    print(answers)
    assert all(answers.values())


def own_keys(path: Path) -> list[bytes]:
    """The keys of the view's unnamed database, the names of the others left out."""
    with lmdb.open(str(path / "view"), max_dbs=8) as env, env.begin() as txn, txn.cursor() as cursor:
        return [key for key, _ in cursor if key < view.OWN_KEYS_END]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("change", ["deleted", "cut short"])
def test_a_view_without_what_it_cannot_do_without_is_made_again(
    quick: Path, ages: dict[str, Age], number: int, change: str
) -> None:
    """Its state, its floor, a timeline."""
    path, name = quick / "s", "own compacted"
    join(path, ages, wholly(name))
    needed = [
        one for one in own_keys(path) if one in (view.STATE_KEY, view.FLOOR_KEY) or one[:1] == view.TIMELINE_PREFIX
    ]
    assert len(needed) == 5
    for key in needed:
        join(path, ages, wholly(name))
        with lmdb.open(str(path / "view"), max_dbs=8) as env, env.begin(write=True) as txn:
            data = txn.get(key)
            assert data is not None
            if change == "deleted":
                txn.delete(key)
            else:
                txn.put(key, data[:-1])
        assert judge(path, ages[name].told, number)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("database", ["records", "tombstones", "transactions", "feed", "index"])
def test_a_view_without_one_of_its_databases_is_made_again(
    quick: Path, ages: dict[str, Age], number: int, database: str
) -> None:
    path, name = quick / "s", "own compacted"
    join(path, ages, wholly(name))
    with lmdb.open(str(path / "view"), max_dbs=8) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(database.encode(), txn=txn), delete=True)
    assert judge(path, ages[name].told, number)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("of", ["own", "other"])
def test_a_view_to_which_nothing_was_applied_yet_is_made_again(
    quick: Path, ages: dict[str, Age], number: int, of: str
) -> None:
    """As a creation leaves it that did not finish, of this store and of another."""
    path, name = quick / "s", "own young"
    join(path, ages, wholly(name))
    (path / "view" / "data.mdb").unlink()
    start = manifest.read(OSFiles(), path)
    assert start is not None
    chain = start.start if of == "own" else start.start._replace(epoch=7)
    view.View.create(path / "view", start.view_map_bytes, chain).close()
    vouch(path)
    assert judge(path, ages[name].told, number)
