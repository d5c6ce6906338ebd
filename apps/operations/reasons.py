"""Everything an instance may find wrong with itself, once: code, how bad it is, and the operator's next step.

The runbook has a section for each (a test compares). `BLOCKING` reasons make the instance not ready; with `ATTENTION`
it serves, and somebody should look.
"""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is."""

    BLOCKING = "blocking"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a reason before it is met."""

    severity: Severity
    next_step: str


B, A = Severity.BLOCKING, Severity.ATTENTION

REASONS: dict[str, Known] = {
    "DATABASE_UNAVAILABLE": Known(
        B,
        "Check that the server in DATABASE_URL runs and takes connections, or that the data directory's disk has room.",
    ),
    "DATABASE_STALLED": Known(
        B,
        "See what holds it: on PostgreSQL a lock ('pg_stat_activity', 'pg_locks') or a stopped server or proxy; on "
        "SQLite a stopped or hanging process that has control.sqlite3 open (state T or D in 'ps').",
    ),
    "DATABASE_BEHIND": Known(B, "Stop the instance and run 'manage.py setup', which brings the database up to date."),
    "DATABASE_AHEAD": Known(
        B, "A newer version has used this database: run that version, or restore the backup taken before the upgrade."
    ),
    "STORAGE_UNAVAILABLE": Known(
        B, "Read the message; docs/engine.md, section Recovery, before touching the directory."
    ),
    "STORAGE_CORRUPT": Known(B, "Stop writing. Restore the namespace from a backup; docs/engine.md, section Recovery."),
    "STORAGE_FAILED": Known(
        B, "Check the disk, then restart the instance: recovery runs when the store is opened anew."
    ),
    "STORAGE_REBUILDING": Known(B, "Wait: the view is being rebuilt from the log, which ends by itself."),
    "STORAGE_FULL": Known(B, "Make room on the disk; writes resume by themselves and reads go on meanwhile."),
    "STORAGE_STALLED": Known(
        B, "Look for a stopped or hanging process that has the store open (state T or D in 'ps'), and for a slow disk."
    ),
    "STORAGE_PROBE_FAILED": Known(B, "The probe itself failed; the server's log has the reason."),
    "STORAGE_RECOVERED_INCOMPLETE_WRITE": Known(
        A, "Nothing acknowledged is lost. Look at the storage page of the console and acknowledge the recovery there."
    ),
    "CLOCK_BEHIND": Known(
        A, "Set the host's clock right (NTP): new writes carry the time of older ones until it catches up."
    ),
    "WORKER_LOST": Known(
        A,
        "A worker ended without saying so or hangs. Start one ('manage.py worker'); its work comes back by its leases.",
    ),
    "WORKER_MISSING": Known(A, "Work or triggers wait and no worker runs: start one with 'manage.py worker'."),
    "WORK_WAITING": Known(
        A, "Work that could run has waited long: start more workers, or one that has the capability; see the work page."
    ),
    "TRIGGERS_APART": Known(
        A,
        "Store and database are apart. Restore both from one moment, or run 'manage.py doctor --reconcile'.",
    ),
    "TRIGGER_BLOCKED": Known(A, "Read why in the console, put it right, and enable or rebase the trigger."),
    "TRIGGER_BEHIND": Known(
        A, "See that a worker runs and what it logs; if work is made faster than done, start more."
    ),
    "TRIGGER_QUARANTINE": Known(
        A, "Changes matched and could not become work: see the trigger's quarantine, retry or skip each."
    ),
    "DEAD_LETTERS": Known(A, "Work has failed for good: see the dead letters in the console, retry or discard them."),
    "COMPACTION_FAILED": Known(
        A, "Read why with the run on the compaction page, put it right, then run 'manage.py compact --namespace NAME'."
    ),
    "BACKUP_FAILED": Known(A, "Read why, put it right, and make one: 'manage.py backup create'."),
    "BACKUP_OLD": Known(A, "Make one: 'manage.py backup create'; see that what makes them by the clock still runs."),
    "RESTORE_UNFINISHED": Known(
        B, "Do not start the instance: run 'manage.py backup restore BUNDLE --replace' again, to its end."
    ),
    "HISTORY_HELD": Known(
        A, "See whose pin it is ('manage.py compact --dry-run'); whoever has gone for good: let the pin expire or go."
    ),
    "TRIGGER_BEYOND_MAX_LAG": Known(
        A, "Get it going (TRIGGER_BEHIND), or give it a larger max_lag_operations, before its history goes."
    ),
    "DATA_DIR_EXPOSED": Known(A, "Take the rights of others away: chmod -R go-rwx on the data directory's secrets."),
    "SECRETS_LOST": Known(
        A, "Stop the instance and bring its secrets back: manage.py secrets import FILE; docs/keys.md, section Secrets."
    ),
    "DATA_DIR_UNUSABLE": Known(B, "Give the server's user the data directory: it must be able to write and list it."),
    "CHECK_FAILED": Known(
        A, "The check itself failed; its message says why. See the other findings first: a full disk is often why."
    ),
    "DISK_NEARLY_FULL": Known(A, "Make room, or enlarge the volume, before writes are refused."),
    "DEBUG_ON": Known(A, "Set DEBUG=false: debugging shows internals to whoever causes an error."),
    "HOSTS_OPEN": Known(A, "List the names this server is reached by in ALLOWED_HOSTS instead of '*'."),
    "PLAIN_HTTP_EXPOSED": Known(
        A,
        "The server listens beyond this host without TLS: put a proxy in front and set HTTPS=true, or HOST=127.0.0.1.",
    ),
    "VERIFY_FAILED": Known(
        B, "The log does not read back as it was written: docs/engine.md, section Recovery; keep the directory."
    ),
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console: the name of its address, and what the navigation calls it."""

    url_name: str
    label: str


_COMPACTION = Page("admin:compaction", "Compaction")
_BACKUPS = Page("admin:backups", "Backups")

PAGES: dict[str, Page] = {
    "STORAGE_RECOVERED_INCOMPLETE_WRITE": Page("admin:storage", "Storage"),
    "TRIGGER_BEYOND_MAX_LAG": Page("admin:triggers_trigger_changelist", "Triggers"),
    "COMPACTION_FAILED": _COMPACTION,
    "HISTORY_HELD": _COMPACTION,
    "BACKUP_FAILED": _BACKUPS,
    "BACKUP_OLD": _BACKUPS,
    "DISK_NEARLY_FULL": Page("admin:capacity", "Capacity"),
}
"""Where the console shows more of a reason that its own pages tell."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One thing that is wrong: a stable code, where, what was seen, what to do next, and how bad it is."""

    code: str
    subject: str
    message: str
    next_step: str
    severity: Severity

    @property
    def page(self) -> Page | None:
        """Return where the console shows more of it."""
        return PAGES.get(self.code)

    @property
    def blocking(self) -> bool:
        """Tell whether the instance is not ready because of it."""
        return self.severity is Severity.BLOCKING


def reason(code: str, subject: str, message: str) -> Reason:
    """Return a reason of the table. Raises KeyError for a code that is not in it."""
    known = REASONS[code]
    return Reason(code=code, subject=subject, message=message, next_step=known.next_step, severity=known.severity)


ENGINE_REASONS: dict[str, str] = {
    "STORAGE_FULL": "STORAGE_FULL",
    "STORAGE_FAILED": "STORAGE_FAILED",
    "LOG_CORRUPT": "STORAGE_CORRUPT",
    "STORE_REBUILDING": "STORAGE_REBUILDING",
    "DEADLINE_EXCEEDED": "STORAGE_STALLED",
}
"""The engine's refusals that have a reason of their own; every other is STORAGE_UNAVAILABLE."""

LABEL_REASONS: dict[str, str] = {
    "recovered-incomplete-write": "STORAGE_RECOVERED_INCOMPLETE_WRITE",
    "failed": "STORAGE_FAILED",
    "rebuilding": "STORAGE_REBUILDING",
    "damaged": "STORAGE_CORRUPT",
    "full": "STORAGE_FULL",
}
"""What a store says of itself (`Health.reasons`); anything else is STORAGE_UNAVAILABLE."""
