"""The judges themselves: right histories pass, and a wrong one of every kind is found."""

import random
from collections.abc import Callable

import pytest

from tests.engine.checkers import feed
from tests.engine.checkers.feed import Acknowledged, Entry, Gone, Page
from tests.engine.checkers.linear import Call, Undecided, stuck_at
from tests.engine.checkers.registers import (
    EMPTY,
    Change,
    Read,
    Refused,
    Write,
    Written,
    groups,
    in_ordinals,
    not_linearizable,
    step,
)
from tests.engine.checkers.registers import Entry as Seen

X = "a:x"
Y = "a:y"


def write(begin: int, end: int | None, *changes: Change, told: object = None, **members: object) -> Call:
    """A transaction; without an answer of its own it was committed with version 1 of everything."""
    answer = Written((1,) * len(changes)) if told is None else told
    return Call("w", begin, end, Write(changes, **members), answer if end is not None else None)  # type: ignore[arg-type]


def read(begin: int, end: int, *seen: Seen | None, keys: tuple[str, ...] = (X, Y)) -> Call:
    return Call("r", begin, end, Read(keys[: len(seen)]), seen)


def put(value: str, key: str = X, if_version: int | None = None) -> Change:
    return Change(key, "put", value, if_version)


ONE, TWO = Seen(1, "one"), Seen(2, "two")
W1 = write(0, 10, put("one"))
W2 = write(20, 30, put("two"), told=Written((2,)))

RIGHT = {
    "reads after writes": [W1, read(11, 12, ONE), W2, read(31, 32, TWO)],
    "a read beside a write sees either": [W1, W2, read(21, 29, ONE), read(22, 28, TWO)],
    "two reads beside a write, one after the other": [W1, W2, read(21, 22, ONE), read(23, 24, TWO)],
    "overlapping writes in either order": [
        write(0, 10, put("one"), told=Written((2,))),
        write(0, 10, put("two")),
        read(11, 12, Seen(2, "one")),
    ],
    "an unanswered write that took effect": [write(0, None, put("one")), read(50, 51, ONE)],
    "an unanswered write that never did": [write(0, None, put("one")), read(50, 51, None)],
    "an unanswered write that took effect late": [
        write(0, None, put("one")),
        read(50, 51, None),
        read(60, 61, ONE),
    ],
    "a lost compare-and-set": [
        W1,
        write(11, 20, put("two", if_version=1), told=Written((2,))),
        write(11, 20, put("three", if_version=1), told=Refused()),
    ],
    "a version that goes on over a delete": [
        W1,
        write(11, 12, Change(X, "delete"), told=Written((2,))),
        read(13, 14, None),
        write(15, 16, Change(X, "delete"), told=Written((2,))),
        write(17, 18, Change(X, "insert", "again"), told=Written((3,))),
    ],
    "a retry answered as the first time": [
        write(0, None, put("one"), id="t"),
        write(20, 30, put("one"), id="t", told=Written((1,), duplicate=True)),
        read(31, 32, ONE),
    ],
    "a retry of what never happened": [
        write(0, None, put("one"), id="t"),
        write(20, 30, put("one"), id="t"),
    ],
    "a precondition that held": [W1, write(11, 12, put("y", Y), requires=((X, 1),))],
    "a transaction seen whole": [write(0, 10, put("x"), put("y", Y)), read(0, 20, Seen(1, "x"), Seen(1, "y"))],
}

WRONG = {
    "a lost write": [W1, read(11, 12, None)],
    "a stale read": [W1, W2, read(31, 32, ONE)],
    "a read that goes back": [W1, W2, read(21, 22, TWO), read(23, 24, ONE)],
    "two readers that disagree about the order": [
        write(0, 100, put("one"), told=Written((1,))),
        write(0, 100, put("one", Y), told=Written((1,))),
        read(1, 50, ONE, None),
        read(2, 51, None, ONE),
    ],
    "a value nobody wrote": [W1, read(11, 12, Seen(1, "none"))],
    "a read before its write began": [read(0, 1, ONE), write(5, 10, put("one"))],
    "a lost update": [
        W1,
        write(11, 20, put("two", if_version=1), told=Written((2,))),
        write(11, 20, put("three", if_version=1), told=Written((2,))),
    ],
    "a compare-and-set refused for nothing": [W1, write(11, 12, put("two", if_version=1), told=Refused())],
    "a torn transaction": [write(0, 10, put("x"), put("y", Y)), read(11, 12, Seen(1, "x"), None)],
    "a torn transaction beside it": [write(0, 10, put("x"), put("y", Y)), read(1, 9, None, Seen(1, "y"))],
    "a version that starts anew": [
        W1,
        write(11, 12, Change(X, "delete"), told=Written((2,))),
        write(13, 14, Change(X, "insert", "again"), told=Written((1,))),
    ],
    "a deleted record that comes back": [
        W1,
        write(11, 12, Change(X, "delete"), told=Written((2,))),
        read(13, 14, ONE),
    ],
    "a transaction applied twice": [
        write(0, None, put("one"), id="t"),
        write(20, 30, put("one"), id="t", told=Written((2,))),
    ],
    "a retry told of a first time that never was": [
        write(20, 30, put("one"), id="t", told=Written((1,), duplicate=True)),
        write(40, None, put("one"), id="t"),
    ],
    "an unanswered write that was undone again": [write(0, None, put("one")), read(50, 51, ONE), read(60, 61, None)],
    "an insert over something": [W1, write(11, 12, Change(X, "insert", "two"), told=Written((2,)))],
    "an update of nothing": [write(0, 1, Change(X, "update", "one"))],
    "a precondition that did not hold": [W1, write(11, 12, put("y", Y), requires=((X, 2),))],
    "a refusal that left something": [
        W1,
        write(11, 12, put("y", Y), put("x", X, 7), told=Refused()),
        read(13, 14, ONE, Seen(1, "y")),
    ],
}


@pytest.mark.parametrize("calls", RIGHT.values(), ids=RIGHT)
def test_a_right_history_passes(calls: list[Call]) -> None:
    assert not_linearizable(calls) is None


@pytest.mark.parametrize("calls", WRONG.values(), ids=WRONG)
def test_a_wrong_history_is_found(calls: list[Call]) -> None:
    stuck = not_linearizable(calls)
    assert stuck and set(stuck) <= set(calls)


def test_versions_that_jumped_over_forgotten_records_are_judged_by_their_place() -> None:
    """The record had the versions 1, 2, 9 and 10: it was deleted, forgotten and made again."""
    made = {X: {1: "t1", 2: "t2", 9: "t4", 10: "t5"}}
    calls = [
        write(0, 10, put("one"), id="t1"),
        write(11, 12, Change(X, "delete"), told=Written((2,)), id="t2"),
        write(13, 14, Change(X, "delete"), told=Written((2,)), id="t3"),
        write(13, 14, Change(X, "delete"), told=Written((0,)), id="t3b"),
        write(15, 16, put("nine", if_version=0), told=Written((9,)), id="t4"),
        read(17, 18, Seen(9, "nine")),
        write(19, 20, put("ten", if_version=9), told=Written((10,)), id="t5"),
    ]
    assert not_linearizable(calls)
    assert not_linearizable(in_ordinals(calls, made)) is None
    for wrong in (
        [*calls[:5], read(17, 18, Seen(8, "nine"))],
        [*calls[:5], read(17, 18, Seen(2, "nine"))],
        [*calls[:5], read(17, 18, None)],
        [*calls[:4], write(15, 16, put("nine", if_version=8), told=Written((9,)), id="t4")],
        [*calls[:4], write(15, 16, put("nine"), told=Written((2,)), id="t4")],
        [*calls[:2], write(13, 14, put("nine", if_version=2), told=Written((9,)), id="t4")],
        [calls[0], write(11, 12, Change(X, "delete"), told=Written((0,)), id="t2"), read(13, 14, None)],
    ):
        assert not_linearizable(in_ordinals(wrong, made))


def test_only_records_that_calls_connect_are_searched_together() -> None:
    calls = [W1, write(0, 5, put("y", Y)), write(1, 2, put("z", "b:z"), requires=(("b:q", 0),)), read(3, 4, None, None)]
    assert sorted(map(len, groups(calls))) == [1, 3]


def test_a_search_that_takes_too_long_is_no_yes() -> None:
    keys = tuple(f"a:{number}" for number in range(10))
    calls = [write(0, 100, put("one", key)) for key in keys]
    calls.append(read(101, 102, *[None] * len(keys), keys=keys))
    assert stuck_at(step, EMPTY, calls)
    with pytest.raises(Undecided):
        stuck_at(step, EMPTY, calls, states_max=500)


def lived(choose: random.Random) -> list[Call]:
    """A history that a real order made: every call takes effect at a moment of its own, seen by none but the judge."""
    state, calls = EMPTY, []
    for number in range(60):
        moment = number * 10
        keys = choose.sample(["a:1", "a:2", "a:3"], choose.randint(1, 2))
        request: Write | Read = Read(tuple(keys))
        if choose.random() < 0.5:
            kinds = ["put", "put", "insert", "update", "delete"]
            changes = tuple(
                Change(key, choose.choice(kinds), f"{number}", choose.choice([None, None, 1, 2]))  # type: ignore[arg-type]
                for key in keys
            )
            request = Write(changes, id=choose.choice(["t1", "t2", None, None]) and f"t{number // 40}-{keys}")
        answer, state = step(state, request)
        begin, end = moment - choose.randint(1, 25), moment + choose.randint(1, 25)
        killed = choose.random() < 0.05
        calls.append(Call(str(number), begin, None if killed else end, request, None if killed else answer))
    return calls


@pytest.mark.parametrize("seed", range(10))
def test_what_a_real_order_made_passes_and_one_changed_answer_is_found(seed: int) -> None:
    calls = lived(random.Random(seed))
    assert not_linearizable(calls) is None
    reads = [place for place, call in enumerate(calls) if isinstance(call.request, Read) and any(call.answer or ())]
    for place in reads[:3]:
        call = calls[place]
        if call.answer:
            spoiled = tuple(None if one is None else one._replace(version=one.version + 90) for one in call.answer)
            assert not_linearizable([*calls[:place], call._replace(answer=spoiled), *calls[place + 1 :]])


def entry(sequence: int, transaction: str, key: str, version: int, kind: str = "") -> Entry:
    return Entry(
        sequence, transaction, kind or ("insert" if version == 1 else "update"), key, version, f"h{sequence}", 1
    )


TRUTH = [
    entry(1, "t1", X, 1),
    entry(2, "t1", Y, 1),
    entry(3, "t2", X, 2),
    entry(4, "t3", X, 3, "delete"),
    entry(5, "t3", Y, 2),
    entry(6, "t4", X, 4, "insert"),
]
PAGES = [
    Page(0, tuple(TRUTH[:3]), 3, 3, 0),
    Page(3, (), 3, 3, 0),
    Page(3, tuple(TRUTH[3:]), 6, 6, 0),
]
TOLD = [Acknowledged("t1", (1, 2), 0, 5), Acknowledged("t2", (3,), 3, 9), Acknowledged("t4", (6,), 20, 21)]


def test_a_right_feed_passes() -> None:
    assert feed.faults_of_truth(TRUTH) == []
    assert feed.faults_of_truth(TRUTH[3:], floor=3) == []
    assert feed.faults_of_pages(PAGES) == []
    assert feed.faults_against_truth(PAGES, TRUTH) == []
    assert feed.faults_of_acknowledged(TOLD, TRUTH) == []
    assert feed.faults_of_state({X: (4, 6), Y: (2, 5)}, TRUTH) == []
    compacted = [PAGES[0], Gone(3, 5, 6), Page(5, (TRUTH[5],), 6, 6, 5)]
    assert feed.faults_of_pages(compacted) == []


def kinds(faults: list[str]) -> set[str]:
    return {fault.partition(":")[0] for fault in faults}


def swapped(entries: list[Entry], one: int, two: int) -> list[Entry]:
    found = list(entries)
    found[one], found[two] = found[two], found[one]
    return found


WRONG_TRUTHS: dict[str, list[list[Entry]]] = {
    "ordered": [swapped(TRUTH, 0, 1)],
    "unique": [[*TRUTH[:2], TRUTH[1], *TRUTH[2:]]],
    "hole": [TRUTH[1:], [*TRUTH[:2], *TRUTH[3:]]],
    "atomic": [[*TRUTH[:5], TRUTH[5]._replace(transaction="t1")]],
    "time": [[*TRUTH[:5], TRUTH[5]._replace(at_ms=0)]],
    "versions": [[*TRUTH[:5], TRUTH[5]._replace(version=1)], [*TRUTH[:2], TRUTH[2]._replace(version=1), *TRUTH[3:]]],
    "kinds": [[*TRUTH[:5], TRUTH[5]._replace(kind="update")], [TRUTH[0]._replace(kind="delete"), *TRUTH[1:]]],
}


def test_only_an_insert_after_a_forgotten_delete_may_jump() -> None:
    jumped = [*TRUTH[:5], TRUTH[5]._replace(version=9)]
    assert kinds(feed.faults_of_truth(jumped)) == {"versions"}
    assert feed.faults_of_truth(jumped, forgotten=True) == []
    assert kinds(feed.faults_of_truth([*TRUTH[:5], TRUTH[5]._replace(version=3)], forgotten=True)) == {"versions"}
    updated = [*TRUTH[:2], TRUTH[2]._replace(version=7), TRUTH[3]._replace(version=8), *TRUTH[4:5]]
    assert kinds(feed.faults_of_truth(updated, forgotten=True)) == {"versions"}


@pytest.mark.parametrize(("kind", "truth"), [(kind, truth) for kind, all in WRONG_TRUTHS.items() for truth in all])
def test_a_wrong_feed_is_found(kind: str, truth: list[Entry]) -> None:
    assert kind in kinds(feed.faults_of_truth(truth))


WRONG_PAGES: dict[str, list[list[Page | Gone]]] = {
    "ordered": [[PAGES[0]._replace(entries=tuple(swapped(TRUTH[:3], 0, 1)))]],
    "unique": [[PAGES[0]._replace(entries=(TRUTH[0], TRUTH[0], TRUTH[1], TRUTH[2]))]],
    "hole": [
        [PAGES[0]._replace(entries=(TRUTH[0], TRUTH[2]))],
        [PAGES[0]._replace(entries=(TRUTH[1], TRUTH[2]))],
        [PAGES[0]._replace(reached=5, head=6)],
        [PAGES[1]._replace(reached=4, head=6)],
    ],
    "resumed": [[PAGES[0], PAGES[2]._replace(after=4, entries=tuple(TRUTH[4:]))], [PAGES[0], PAGES[0]]],
    "head": [[PAGES[0]._replace(head=2)], [PAGES[2], PAGES[2]._replace(after=6, entries=(), reached=6, head=5)]],
    "floor": [[PAGES[0]._replace(floor=2)]],
    "gone": [[PAGES[0], Gone(3, 3, 6), PAGES[2]], [PAGES[0], Gone(3, 2, 6)]],
    "resumed, after a refusal": [[PAGES[0], Gone(3, 4, 6), Page(5, (TRUTH[5],), 6, 6, 4)]],
    "head, after a refusal": [[PAGES[0], Gone(3, 4, 9), Page(4, tuple(TRUTH[4:]), 6, 6, 4)]],
}


@pytest.mark.parametrize(("kind", "pages"), [(kind, pages) for kind, all in WRONG_PAGES.items() for pages in all])
def test_a_wrong_page_is_found(kind: str, pages: list[Page | Gone]) -> None:
    assert kind.partition(",")[0] in kinds(feed.faults_of_pages(pages))


def test_pages_are_held_against_the_truth() -> None:
    torn = Page(0, (TRUTH[0],), 1, 6, 0)
    assert kinds(feed.faults_against_truth([torn], TRUTH)) == {"atomic"}
    other = PAGES[0]._replace(entries=(TRUTH[0], TRUTH[1], TRUTH[2]._replace(content_hash="other")))
    assert kinds(feed.faults_against_truth([other], TRUTH)) == {"changed"}
    assert kinds(feed.faults_against_truth(PAGES, TRUTH[:5])) == {"lost"}


WRONG_TOLD: dict[str, Callable[[], list[str]]] = {
    "lost": lambda: feed.faults_of_acknowledged([*TOLD, Acknowledged("t5", (7,), 30, 31)], TRUTH),
    "lost, elsewhere": lambda: feed.faults_of_acknowledged([TOLD[0], Acknowledged("t2", (4,), 3, 9)], TRUTH),
    "twice": lambda: feed.faults_of_acknowledged(TOLD, [*TRUTH, entry(7, "t2", X, 5)]),
    "real time": lambda: feed.faults_of_acknowledged([TOLD[0], Acknowledged("t4", (6,), 0, 1), TOLD[1]], TRUTH),
}


@pytest.mark.parametrize("kind", WRONG_TOLD)
def test_a_wrong_acknowledgement_is_found(kind: str) -> None:
    assert kind.partition(",")[0] in kinds(WRONG_TOLD[kind]())


@pytest.mark.parametrize("state", [{X: (4, 6)}, {X: (4, 6), Y: (1, 2)}, {X: (4, 6), Y: (2, 5), "a:z": (1, 1)}])
def test_a_wrong_state_is_found(state: dict[str, tuple[int, int]]) -> None:
    assert kinds(feed.faults_of_state(state, TRUTH)) == {"state"}
