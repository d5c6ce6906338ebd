"""Verifying a bundle with its run and audit, for whoever looks at a page; the check itself is in `bundle.py`."""

from collections.abc import Sequence

from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.operations.models import UpkeepRun
from apps.operations.services import turns, upkeep
from apps.operations.services.backups import bundle, places
from apps.operations.services.backups.bundle import Bundle
from apps.operations.services.backups.places import Listed
from feltdb_engine.errors import EngineError
from feltdb_engine.locks import FileLock

ENDED = "Its process ended before it did."


def verify_and_note(name: str, *, by: Principal, turn: FileLock | None = None) -> Bundle:
    """Verify the bundle of that name; the run says how far it is and how it ended.

    `turn` is the turn of verifications, where the caller has it already; it is given back. Raises ApiError (no such
    name, another at work), BackupInvalid.
    """
    path = places.place(name)
    held = turn or turns.take(turns.VERIFICATION)
    try:
        upkeep.cut_off(ENDED, kind=UpkeepRun.Kind.VERIFICATION)
        with upkeep.noted(UpkeepRun.Kind.VERIFICATION, name, by=by) as running:
            try:
                seen = bundle.verify(path, running.tell)
            except EngineError as error:
                record(by, "backup.verified", target=name, outcome="failed", code=error.code)
                raise
            running.report = seen.document()
            record(by, "backup.verified", target=name, after=running.report)
    finally:
        held.close()
    return seen


def last_verified(found: Sequence[Listed]) -> dict[str, UpkeepRun]:
    """Return by name the last verification of each that has ended, of what lies there now."""
    made = {each.name: each.bundle.made_at_ms if each.bundle else 0 for each in found}
    rows = UpkeepRun.objects.filter(
        kind=UpkeepRun.Kind.VERIFICATION, subject__in=list(made), ended_at_ms__isnull=False
    ).order_by("id")
    return {row.subject: row for row in rows if row.started_at_ms >= made[row.subject]}
