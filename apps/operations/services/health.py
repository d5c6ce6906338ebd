"""What an instance observes of itself, with the next step for an operator beside each reason.

Observations only: `clean` says what was seen at the last look, never that data is safe.
"""

from dataclasses import dataclass

from django.db import DatabaseError, connection

from apps.keys.models import Namespace
from apps.state.stores import store
from feltdb_engine import EngineError

# A probe looks at this many namespaces at most, so that it stays bounded however many there are.
MAX_PROBED_NAMESPACES = 100
READY_STORAGE = ("clean", "recovered-incomplete-write")


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One thing that is wrong: a stable code, where, what was seen, and what to do next."""

    code: str
    subject: str
    message: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """`storage` is the worst label among the namespaces; `ready` is true when nothing stands in the way of serving."""

    ready: bool
    storage: str
    durable_format: int | None
    reasons: tuple[Reason, ...]


def observe() -> Observation:
    """Read the database and the health of every store, newest namespaces last. Never raises for what it observes."""
    reasons: list[Reason] = []
    labels: list[str] = []
    durable_format: int | None = None
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        names = list(Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_PROBED_NAMESPACES])
    except DatabaseError as error:
        names = []
        reasons.append(
            Reason(
                code="DATABASE_UNAVAILABLE",
                subject="control plane",
                message=f"the database did not answer: {type(error).__name__}",
                next_step="Check that the server in DATABASE_URL runs, or that the data directory's disk has room.",
            )
        )
    for name in names:
        try:
            health = store(name).health()
        except EngineError as error:
            labels.append("failed")
            reasons.append(
                Reason(
                    code=error.code,
                    subject=f"namespace {name}",
                    message=error.message,
                    next_step="Read docs/engine.md, section Recovery, before touching the directory.",
                )
            )
            continue
        durable_format = health.durable_format
        labels.append(health.storage)
        reasons.extend(
            Reason(
                code="STORAGE_" + health.storage.upper().replace("-", "_"),
                subject=f"namespace {name}",
                message=text,
                next_step="Read docs/engine.md, section Recovery.",
            )
            for text in health.reasons
        )
    worst = next((label for label in labels if label not in READY_STORAGE), None)
    worst = worst or next((label for label in labels if label != "clean"), "clean")
    database_down = any(reason.code == "DATABASE_UNAVAILABLE" for reason in reasons)
    return Observation(
        ready=not database_down and all(label in READY_STORAGE for label in labels),
        storage=worst,
        durable_format=durable_format,
        reasons=tuple(reasons),
    )
