"""Everything that can be looked at of an instance, and what is wrong with it. Changes nothing but a forced empty write.

Works on a running instance and on one that is stopped. Each check stands alone: one that fails hides no other.
"""

import ipaddress
import logging
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from apps.http.errors import ApiError
from apps.keys.clock import utc_now
from apps.keys.lost import lost_secrets
from apps.keys.models import Namespace
from apps.operations.reasons import Reason, reason
from apps.operations.services import keeping
from apps.operations.services.health import database_of_another_version, observe
from apps.operations.statements import at_most, is_late
from apps.state.stores import store_of_known
from apps.workloads import overview as work
from apps.workloads.states import State
from feltdb_engine import EngineError

logger = logging.getLogger("feltdb.operations")

DISK_FREE_PART = 0.1
DISK_FREE_BYTES = 1024**3
"""Free space below either is worth a word."""

COUNT_CAP = 1_000
CHECK_S = 5.0
"""Longest that one check waits for the database."""

AGAIN_S = 0.5
VERIFYING = "log of every store"
VERIFY_PAGE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What was looked at, in order, and what was found."""

    checks: tuple[str, ...]
    findings: tuple[Reason, ...]
    facts: tuple[str, ...] = ()
    """What is worth knowing where nothing is wrong: space, history, the oldest pin, the last backup."""


def examine_briefly() -> Diagnosis:
    """Make the checks that do not look at work, whatever its amount: for a page that somebody waits for."""
    return _examined(
        [
            ("settings", _settings),
            ("data directory", _data_directory),
            ("disk", _disk),
            ("database", _database),
            ("stores", _observed_stores),
            ("secrets", _secrets),
        ]
    )


def examine(*, verify: bool) -> Diagnosis:
    """Make every check; `verify` also reads the whole feed of every store."""
    silent: set[str] = set()  # stores that gave no answer: whoever asks one again waits as long again
    checks: list[tuple[str, Callable[[], Iterator[Reason]]]] = [
        ("settings", _settings),
        ("data directory", _data_directory),
        ("disk", _disk),
        ("database", _database),
        ("stores, workers, triggers", lambda: _observed(silent)),
        ("secrets", _secrets),
        ("dead letters", _dead_letters),
        ("history, compaction, backups", lambda: keeping.reasons(silent=silent)),
    ]
    if verify:
        checks.append((VERIFYING, lambda: _verified(silent)))
    seen = _examined(checks)
    return replace(seen, facts=_facts(_patience_s(seen.findings), silent))


def _facts(seconds: float, silent: Collection[str]) -> tuple[str, ...]:
    try:
        with at_most(seconds):
            return (keeping.last_backup(), *(each.line() for each in keeping.kept(silent=silent)))
    except (DatabaseError, InterfaceError, ApiError):
        return ()  # a finding says so


def _examined(checks: Sequence[tuple[str, Callable[[], Iterator[Reason]]]]) -> Diagnosis:
    findings: list[Reason] = []
    for name, check in checks:
        try:
            with nullcontext() if name == VERIFYING else at_most(_patience_s(findings)):
                findings += check()
        except (DatabaseError, InterfaceError, ApiError) as error:
            findings.append(_unanswered(name, error))
        except Exception as error:
            logger.exception("the check %r failed", name)
            findings.append(reason("CHECK_FAILED", name, f"{type(error).__name__}: {error}"))
    return Diagnosis(checks=tuple(name for name, _ in checks), findings=_once(findings))


def _patience_s(findings: Sequence[Reason]) -> float:
    """Return how long a check may ask the database: not long again where it has not answered before."""
    away = any(each.code in ("DATABASE_UNAVAILABLE", "DATABASE_STALLED") for each in findings)
    return AGAIN_S if away else CHECK_S


def _unanswered(name: str, error: Exception) -> Reason:
    if is_late(error):
        return reason("DATABASE_STALLED", "control plane", "the database did not answer in time")
    if isinstance(error, ApiError):
        return reason("CHECK_FAILED", name, f"{error.code}: {error.message}")
    return reason("DATABASE_UNAVAILABLE", "control plane", f"{type(error).__name__}: {error}".strip())


def _once(findings: Sequence[Reason]) -> tuple[Reason, ...]:
    """Keep the first of those that say the same of the same; what stands in the way comes first."""
    kept = {(each.code, each.subject): each for each in reversed(findings)}
    return tuple(sorted(reversed(kept.values()), key=lambda each: not each.blocking))


def _settings() -> Iterator[Reason]:
    if settings.DEBUG:
        yield reason("DEBUG_ON", "DEBUG", "debugging is on")
    if "*" in settings.ALLOWED_HOSTS:
        yield reason("HOSTS_OPEN", "ALLOWED_HOSTS", "every host name is answered")
    if not settings.HTTPS and not _loopback(settings.HOST):
        yield reason("PLAIN_HTTP_EXPOSED", "HOST", f"plain HTTP on {settings.HOST}")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _data_directory() -> Iterator[Reason]:
    data = Path(settings.DATA_DIR)
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield reason("DATA_DIR_UNUSABLE", str(data), "this user cannot read and write it")
        return
    for path in [data / "secrets", *sorted((data / "secrets").glob("*"))]:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            yield reason("DATA_DIR_EXPOSED", str(path), f"mode {stat.S_IMODE(path.stat().st_mode):04o} lets others in")


def _disk() -> Iterator[Reason]:
    usage = shutil.disk_usage(settings.DATA_DIR)
    if usage.free < min(DISK_FREE_PART * usage.total, 10 * DISK_FREE_BYTES) or usage.free < DISK_FREE_BYTES:
        free = f"{usage.free / 1024**2:,.0f} MiB of {usage.total / 1024**2:,.0f} are free"
        yield reason("DISK_NEARLY_FULL", str(settings.DATA_DIR), free)


def _database() -> Iterator[Reason]:
    yield from database_of_another_version()


def _secrets() -> Iterator[Reason]:
    for each in lost_secrets(now=utc_now()):
        yield reason("SECRETS_LOST", each.name, each.consequence)


def _observed(silent: set[str]) -> Iterator[Reason]:
    seen = observe(write=True)
    silent |= {each.namespace for each in seen.stores if each.health is None}
    yield from seen.reasons


def _observed_stores() -> Iterator[Reason]:
    yield from observe(write=True, with_work=False).reasons


def _dead_letters() -> Iterator[Reason]:
    for name in Namespace.objects.order_by("name").values_list("name", flat=True):
        count = work.count_by_state(name, cap=COUNT_CAP).get(State.DEAD_LETTER, 0)
        if count:
            many = f"more than {COUNT_CAP}" if count > COUNT_CAP else str(count)
            yield reason("DEAD_LETTERS", f"namespace {name}", f"{many} dead letter{'' if count == 1 else 's'}")


def _verified(silent: Collection[str]) -> Iterator[Reason]:
    for name in Namespace.objects.order_by("name").exclude(name__in=silent).values_list("name", flat=True):
        where = f"namespace {name}"
        try:
            trouble = _gap(name)
        except (EngineError, ApiError) as error:
            trouble = error.message
        if trouble:
            yield reason("VERIFY_FAILED", where, trouble)


def _gap(namespace: str) -> str:
    """Read the feed from its floor to its head: checksums are checked on the way; return what is wrong, or nothing."""
    opened = store_of_known(namespace)
    cursor = opened.start()
    expected = cursor.sequence + 1
    while True:
        page = opened.changes(cursor, limit=VERIFY_PAGE)
        for operation in page.operations:
            if operation.sequence != expected:
                return f"operation {expected} is missing; {operation.sequence} comes next"
            expected += 1
        if page.cursor == cursor:
            return "" if expected > page.head else f"the feed ends at {expected - 1}, before its head {page.head}"
        cursor = page.cursor
