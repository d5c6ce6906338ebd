"""Pins: named promises that compaction keeps what comes after a sequence, until a time. They are in the log.

Whoever reads the feed with a cursor it must not lose holds a pin there and renews it as it goes on. A pin that has
expired holds nothing back, and goes with the next one that is set. Not here: what the frames change (`floors.py`).
"""

import re
import time
from typing import Any, Final

import orjson

from feltdb_engine import frame, limits, view
from feltdb_engine.errors import CursorAhead, FeedCompacted, InvalidPin, PinNotFound, TooManyPins
from feltdb_engine.model import Pin
from feltdb_engine.view import NEVER, State, Transaction
from feltdb_engine.writer import Outcome, Writer, nothing_done

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,{limits.PIN_NAME_MAX_CHARS - 1}}}")


def pin(writer: Writer, name: str, sequence: int, expires_at_ms: int | None, now_ms: int) -> None:
    """Set or move a pin. Raises InvalidPin, TooManyPins, FeedCompacted, CursorAhead."""
    _check(name, sequence, expires_at_ms)
    expires = NEVER if expires_at_ms is None else expires_at_ms

    def act(txn: Transaction, state: State) -> Outcome:
        floor = view.floor(txn).sequence
        if sequence < floor:
            raise FeedCompacted("What this pin would keep is gone.", floor=floor, head=state.sequence)
        if sequence > state.sequence:
            raise CursorAhead("A pin cannot lie beyond the head.", head=state.sequence)
        held = view.pins(txn)
        if held.get(name) == (sequence, expires):
            return nothing_done(state)
        gone = sorted(one for one, (_, until) in held.items() if until <= now_ms and one != name)
        if name not in held and len(held) - len(gone) >= limits.PINS_MAX:
            raise TooManyPins(f"A store holds at most {limits.PINS_MAX} pins.")
        said = {"act": "pin", "name": name, "sequence": sequence, "expires_at_ms": expires_at_ms, "gone": gone}
        return writer.append_own(txn, state, frame.PIN, orjson.dumps(said))

    writer.own(act, time.monotonic() + limits.TURN_WAIT_S)


def unpin(writer: Writer, name: str) -> None:
    """Let a pin go. Raises PinNotFound."""

    def act(txn: Transaction, state: State) -> Outcome:
        if name not in view.pins(txn):
            raise PinNotFound(f"There is no pin {name!r}.")
        return writer.append_own(txn, state, frame.PIN, orjson.dumps({"act": "unpin", "names": [name]}))

    writer.own(act, time.monotonic() + limits.TURN_WAIT_S)


def held(txn: Transaction, now_ms: int) -> list[Pin]:
    """The pins that hold something back now, in name order."""
    return [
        Pin(name=name, sequence=sequence, expires_at_ms=None if until == NEVER else until)
        for name, (sequence, until) in view.pins(txn).items()
        if until > now_ms
    ]


def _check(name: Any, sequence: Any, expires_at_ms: Any) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidPin("A pin's name is 1 to 128 of A-Z a-z 0-9 _ . : -", pointer="/name")
    if type(sequence) is not int or sequence < 0:
        raise InvalidPin("A pin's sequence is an integer, 0 or more.", pointer="/sequence")
    if expires_at_ms is not None and (type(expires_at_ms) is not int or not 0 <= expires_at_ms < NEVER):
        raise InvalidPin("A pin expires at a time in milliseconds, or never (null).", pointer="/expires_at_ms")
