"""How many requests a key may send: one allowance for each key, shared by all server processes of the instance.

A key gains `FELTDB_RATE_LIMIT` requests a second and saves up at most `BURST_S` seconds' worth. What is kept of a key
is one instant, the time at which its allowance is whole again (the generic cell rate algorithm), in a small file that
the processes map; a key whose instant has passed needs no place there. Counts start anew after a reboot.

Not here: the headers (`views.py`).
"""

import fcntl
import hashlib
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

BURST_S = 10
"""Seconds of its rate that a key may save up."""

PLACES = 8192
"""Keys whose allowance is not whole at one moment. Far more than send at once."""

PROBES = 16
"""Places looked at for a key. Where all are other keys' that are not whole, it shares the one that is whole soonest."""

_PLACE = struct.Struct("<8sd")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a key has after a request: `remaining` of `limit`, whole again in `reset_s`; `wait_s` where refused."""

    limit: int
    remaining: int
    reset_s: int
    wait_s: int = 0

    @property
    def refused(self) -> bool:
        """Tell whether the request is one too many."""
        return self.wait_s > 0

    @property
    def headers(self) -> dict[str, str]:
        """Return what tells a caller of it."""
        found = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_s),
        }
        return {**found, "Retry-After": str(self.wait_s)} if self.refused else found


def digest_of(key_id: str) -> bytes:
    """Return what is kept of a key's id."""
    return hashlib.blake2b(key_id.encode(), digest_size=8).digest()


class Rates:
    """The allowances of an instance, `per_s` requests a second for each key."""

    def __init__(self, path: Path, per_s: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._limit = per_s * BURST_S
        self._now = now
        self._turn = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self._file, 0, PLACES * _PLACE.size)
        self._map = mmap.mmap(self._file, PLACES * _PLACE.size)

    def take(self, key_id: str) -> Allowance:
        """Take one request from the key's allowance, or refuse it: a refused one costs nothing."""
        digest = digest_of(key_id)
        with self._turn:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                now = self._now()
                place, whole_at = self._find(digest, now)
                after = max(whole_at, now) + 1 / self._per_s
                over = after - now - BURST_S
                # A microsecond's grace: the sums are of floats, and a refusal must not come of their rounding.
                if over > 1e-6:
                    return Allowance(self._limit, 0, math.ceil(whole_at - now), max(1, math.ceil(over)))
                _PLACE.pack_into(self._map, place, digest, after)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        return Allowance(self._limit, int((BURST_S - (after - now)) * self._per_s + 1e-6), math.ceil(after - now))

    def used(self) -> list[tuple[bytes, int]]:
        """Return what is kept of each key that has used of its allowance (`digest_of`), and how many requests."""
        now = self._now()
        places = list(_PLACE.iter_unpack(self._map[:]))
        return [
            (tag, math.ceil((whole_at - now) * self._per_s - 1e-6))
            for tag, whole_at in places
            if 0 < whole_at - now <= 2 * BURST_S
        ]

    def _find(self, digest: bytes, now: float) -> tuple[int, float]:
        """Return the key's place and its instant; an instant further off than any can be is of an earlier boot."""
        first = int.from_bytes(digest, "little")
        best, soonest = 0, math.inf
        for step in range(PROBES):
            place = (first + step) % PLACES * _PLACE.size
            tag, whole_at = _PLACE.unpack_from(self._map, place)
            if whole_at - now > 2 * BURST_S:
                whole_at = 0.0
            if tag == digest:
                return place, whole_at
            if whole_at < soonest:
                best, soonest = place, whole_at
        return best, soonest


@cache
def shared() -> Rates | None:
    """Return this instance's allowances, None where no rate is set."""
    per_s = settings.RATE_LIMIT
    return Rates(Path(settings.DATA_DIR) / "keys.rates", per_s) if per_s else None
