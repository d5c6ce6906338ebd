"""What every store says of itself, and the one thing a person may tell it: that a recovery was looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.models import Namespace
from apps.keys.principal import Principal
from apps.state.stores import store
from feltdb_engine import EngineError
from feltdb_engine.model import Health

MAX_NAMESPACES = 100
"""Stores looked at for one page: each may have to be opened."""

RECOVERED = "recovered-incomplete-write"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreStanding:
    """One namespace's store: its health, or why that could not be read."""

    namespace: str
    health: Health | None
    trouble: str = ""

    @property
    def label(self) -> str:
        """Return what was observed, in one word."""
        return self.health.storage if self.health else "unavailable"

    @property
    def recovered(self) -> bool:
        """Tell whether a recovery waits for somebody to look at it."""
        return self.health is not None and self.health.storage == RECOVERED

    @property
    def recovery(self) -> str:
        """Return what tells this recovery from a later one: where its log was cut, and how much was put aside."""
        return f"{self.health.byte_offset}+{self.health.discarded_bytes}" if self.health else ""

    @property
    def kept_operations(self) -> int:
        """Return how many operations of history the feed still gives."""
        return self.health.head - self.health.floor if self.health else 0


def stores() -> Sequence[StoreStanding]:
    """Return how each store stands, in the order of the names; a store in trouble does not hide the others."""
    names = Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMESPACES]
    return [_standing(name) for name in names]


def acknowledge_recovery(namespace: str, *, by: Principal, seen: str) -> None:
    """Take note, for good, that a person has looked at the recovery `seen` (`StoreStanding.recovery`).

    Raises CONFLICT where it was looked at already or is not the last one, EngineError, ApiError.
    """
    standing = StoreStanding(namespace=namespace, health=store(namespace).health())
    if not standing.recovered:
        raise ApiError("CONFLICT", "its last recovery was looked at already; nothing waits for anybody.")
    if standing.recovery != seen:
        raise ApiError("CONFLICT", "it was recovered again since this page was shown; look at what is told now.")
    store(namespace).acknowledge_recovery()
    record(by, "storage.acknowledge_recovery", target=namespace, namespace=namespace)


def _standing(namespace: str) -> StoreStanding:
    try:
        return StoreStanding(namespace=namespace, health=store(namespace).health())
    except (EngineError, ApiError) as error:
        return StoreStanding(namespace=namespace, health=None, trouble=f"{error.code}: {error.message}")
