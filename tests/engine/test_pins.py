"""Pins are in the log: they survive whatever the view does not, and are judged against floor and head."""

from pathlib import Path

import pytest

from feltdb_engine import Pin, Store, errors, limits
from tests.engine.kit import boot, put, vanish

HOUR_MS = 3_600_000


def test_pins_are_set_moved_and_let_go(store: Store) -> None:
    for number in range(3):
        store.commit([put(f"a:{number}", {})])
    store.pin("trigger:b", 2, 9 * HOUR_MS)
    store.pin("for-ever", 0, None)
    store.pin("trigger:b", 3, 10 * HOUR_MS)
    assert store.pins(now_ms=HOUR_MS) == [
        Pin(name="for-ever", sequence=0, expires_at_ms=None),
        Pin(name="trigger:b", sequence=3, expires_at_ms=10 * HOUR_MS),
    ]
    store.unpin("for-ever")
    assert [one.name for one in store.pins(now_ms=HOUR_MS)] == ["trigger:b"]
    with pytest.raises(errors.PinNotFound):
        store.unpin("for-ever")


def test_a_pin_that_says_what_is_so_writes_nothing(store: Store) -> None:
    store.pin("p", 0, HOUR_MS, now_ms=0)
    written = store.health().written
    store.pin("p", 0, HOUR_MS, now_ms=0)
    assert store.health().written == written


def test_an_expired_pin_is_not_listed_and_goes_with_the_next_one(store: Store) -> None:
    store.pin("old", 0, HOUR_MS, now_ms=0)
    assert [one.name for one in store.pins(now_ms=HOUR_MS - 1)] == ["old"]
    assert store.pins(now_ms=HOUR_MS) == []
    store.pin("new", 0, 3 * HOUR_MS, now_ms=2 * HOUR_MS)
    assert [one.name for one in store.pins(now_ms=0)] == ["new"]


def test_a_store_holds_so_many_pins_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.PINS_MAX == 1000
    monkeypatch.setattr(limits, "PINS_MAX", 3)
    for number in range(3):
        store.pin(f"p{number}", 0, (number + 1) * HOUR_MS, now_ms=0)
    with pytest.raises(errors.TooManyPins):
        store.pin("p3", 0, HOUR_MS, now_ms=0)
    store.pin("p0", 0, 9 * HOUR_MS, now_ms=0)
    store.pin("p3", 0, 9 * HOUR_MS, now_ms=2 * HOUR_MS)
    assert [one.name for one in store.pins(now_ms=0)] == ["p0", "p2", "p3"], "p1 had expired"


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "ä", "a" * 129, None])
def test_a_name_that_breaks_the_rules_is_refused(store: Store, name: str) -> None:
    with pytest.raises(errors.InvalidPin) as refused:
        store.pin(name, 0, None)
    assert refused.value.details["pointer"] == "/name"
    store.pin("a" * 128, 0, None)


@pytest.mark.parametrize(
    ("sequence", "expires", "pointer"),
    [(-1, None, "/sequence"), (True, None, "/sequence"), (0, -1, "/expires_at_ms"), (0, 1 << 63, "/expires_at_ms")],
)
def test_numbers_that_break_the_rules_are_refused(
    store: Store, sequence: int, expires: int | None, pointer: str
) -> None:
    with pytest.raises(errors.InvalidPin) as refused:
        store.pin("p", sequence, expires)
    assert refused.value.details["pointer"] == pointer
    store.pin("p", 0, (1 << 63) - 2)


def test_a_pin_lies_at_the_head_at_most(store: Store) -> None:
    store.commit([put("a:1", {})])
    store.pin("p", 1, None)
    with pytest.raises(errors.CursorAhead) as refused:
        store.pin("p", 2, None)
    assert refused.value.details == {"head": 1}


def test_pins_are_replayed_from_the_log(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", segment_bytes=1 << 16, host=boot(1))
    store.commit([put("a:1", {})])
    store.pin("gone", 0, HOUR_MS, now_ms=0)
    store.pin("kept", 1, None, now_ms=2 * HOUR_MS)
    store.pin("let-go", 1, None, now_ms=2 * HOUR_MS)
    store.unpin("let-go")
    vanish(store)
    with Store.open(tmp_path / "s", host=boot(2)) as again:
        assert again.pins(now_ms=0) == [Pin(name="kept", sequence=1, expires_at_ms=None)]
        assert again.verify().good
    with Store.open(tmp_path / "s", read_only=True, host=boot(2)) as reader:
        assert [one.name for one in reader.pins()] == ["kept"]
        for attempt in (lambda: reader.pin("p", 0, None), lambda: reader.unpin("kept")):
            with pytest.raises(errors.ReadOnlyStore):
                attempt()
