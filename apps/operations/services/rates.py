"""Which keys send so much that they come near their allowance, now. What is kept of a key there is a digest of its id:
its name is found among the keys that were used lately.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from apps.keys import rates as keyed
from apps.keys.clock import utc_now
from apps.keys.models import ApiKey

MAX_SHOWN = 50
LATELY = timedelta(minutes=5)
"""Uses of keys are written to the minute, and a little later."""

MAX_LATELY = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRate:
    """A key that has used of its allowance: `used` of `limit` requests. `key` None: not known by name yet."""

    key: ApiKey | None
    used: int
    limit: int

    @property
    def share(self) -> int:
        """Return the per cent of its allowance that it has used."""
        return min(100, 100 * self.used // max(1, self.limit))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """`per_s` requests a second for each key; 0 where no rate is set. `busy` keys have used of their allowance."""

    per_s: int
    busy: int
    shown: Sequence[KeyRate]


def rates() -> Rates:
    """Look at all allowances once."""
    shared = keyed.shared()
    if shared is None:
        return Rates(per_s=0, busy=0, shown=())
    found = sorted(shared.used(), key=lambda each: -each[1])
    names: dict[bytes, ApiKey] = {}
    if found:
        lately = ApiKey.objects.filter(last_used_at__gte=utc_now() - LATELY).order_by("-last_used_at")
        names = {keyed.digest_of(key.pk): key for key in lately[:MAX_LATELY]}
    limit = settings.RATE_LIMIT * keyed.BURST_S
    shown = [KeyRate(key=names.get(digest), used=used, limit=limit) for digest, used in found[:MAX_SHOWN]]
    return Rates(per_s=settings.RATE_LIMIT, busy=len(found), shown=shown)
