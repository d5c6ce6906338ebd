"""Which secrets this instance's database needs and the instance does not have: what a restore without them lacks.

Looks, and changes nothing. Not here: what is done about it (`sealing.py`, `peppering.py`, `grants/keyring.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from apps.keys import peppering
from apps.keys.clock import milliseconds
from apps.keys.grants.keyring import shared_ring
from apps.keys.grants.models import IssuedGrant

_COUNTED = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """One secret that is needed and not here: which, and what is dead without it."""

    name: str
    consequence: str


def lost_secrets(*, now: datetime) -> list[Lost]:
    """Return what is needed and missing, or here but another than it was."""
    return [*_peppers(now), *_grant_keys(now)]


def _peppers(now: datetime) -> Iterator[Lost]:
    for each in peppering.standings(now=now):
        if each.live_secrets and not each.genuine:
            how = "another than it was" if each.present else "missing"
            yield Lost(
                name=f"key pepper, version {each.version}: {how}",
                consequence=f"{each.live_secrets} live secrets of keys verify no more",
            )


def _grant_keys(now: datetime) -> Iterator[Lost]:
    at_ms = milliseconds(now)
    live = IssuedGrant.objects.filter(revoked_at_ms__isnull=True, expires_at_ms__gt=at_ms)
    for key in shared_ring(now_ms=at_ms).keys:
        live = live.exclude(document__contains=key.id)
    dead = live[:_COUNTED].count()
    if dead:
        many = f"{dead} live grants" if dead < _COUNTED else f"at least {_COUNTED} live grants"
        yield Lost(name="keys that sign grants: missing", consequence=f"{many} verify no more")
