"""Keys as their administrators see them: one, and pages of many. Nothing here changes anything or shows a secret."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from apps.keys import limits
from apps.keys.clock import from_microseconds, microseconds
from apps.keys.errors import KeyNotFound
from apps.keys.models import ApiKey
from apps.keys.principal import EVERY_NAMESPACE, Principal

_AT_ONE_INSTANT = 1_000
"""Keys made in one microsecond that pages can part."""

_AT_A_TIME = 200
"""Keys that a statement brings at least, however short the page: most of them may be such as the reader may not see."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPage:
    """Keys, newest first; `below` is where to go on, None at the end: an instant, and how many of it were looked at.

    So it tells nothing of a key that the reader may not see, though such a one may be the last that was looked at.
    """

    keys: list[ApiKey]
    below: int | None


def get_key(key_id: str, *, reader: Principal) -> ApiKey:
    """Return the key. Raises KeyNotFound alike for none and for one with a namespace `reader` may not see."""
    key = ApiKey.objects.filter(pk=key_id).first() if key_id.isalnum() else None
    if key is None or not may_see(reader, key):
        raise KeyNotFound(f"there is no key '{key_id}'")
    return key


def list_keys(
    *,
    reader: Principal,
    now: datetime,
    namespace: str | None = None,
    live_only: bool = False,
    below: int | None = None,
    limit: int = limits.MAX_PAGE,
) -> KeyPage:
    """Return a page of the keys `reader` may see: those all of whose namespaces it may enter.

    A page looks at no more than `MAX_LOOKED_AT` keys: it may be short, or empty, and yet not the last.
    """
    rows = ApiKey.objects.order_by("-created_at", "id")
    instant, seen = None, 0  # of the keys made at that instant, so many were looked at
    if below is not None:
        micros, seen = divmod(below, _AT_ONE_INSTANT)
        instant = from_microseconds(micros)
        rows = rows.filter(created_at__lte=instant)
    if live_only:
        rows = rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)
    page: list[ApiKey] = []
    for looked_at, key in enumerate(_in_order(rows, past=seen, at_a_time=max(limit + 1, _AT_A_TIME))):
        full = len(page) >= limit or looked_at >= limits.MAX_LOOKED_AT
        if full and instant is not None and seen < _AT_ONE_INSTANT:
            return KeyPage(keys=page, below=microseconds(instant) * _AT_ONE_INSTANT + seen)
        seen = seen + 1 if key.created_at == instant else 1
        instant = key.created_at
        if may_see(reader, key) and (namespace is None or not {namespace, EVERY_NAMESPACE}.isdisjoint(key.namespaces)):
            page.append(key)
    return KeyPage(keys=page, below=None)


def _in_order(rows: QuerySet[ApiKey], *, past: int, at_a_time: int) -> Iterator[ApiKey]:
    """Yield the keys of `rows` but for the first `past`, newest first, by statements that bring `at_a_time` at most.

    Not by `iterator()`: outside a transaction PostgreSQL makes the whole answer of its cursor before the first row.
    """
    brought = list(rows[past : past + at_a_time])
    while brought:
        yield from brought
        if len(brought) < at_a_time:
            return
        last = brought[-1]
        older = Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__gt=last.id)
        brought = list(rows.filter(older, created_at__lte=last.created_at)[:at_a_time])


def may_see(reader: Principal, key: ApiKey) -> bool:
    """Tell whether `reader` may enter every namespace of the key."""
    return all(reader.may_enter(namespace) for namespace in key.namespaces)
