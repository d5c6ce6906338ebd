"""Every environment variable of an instance, once: name, kind, bounds, default and meaning.

Settings, the server's configuration and the reference in `docs/settings.md` (`python -m feltsite.environment`) are made
from this table; a test holds them together. Not here: what is computed from the values (`settings.py`, `capacity.py`).
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from django.core.exceptions import ImproperlyConfigured

Kind = Literal["text", "flag", "whole", "list"]
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off", ""})
ALIKE = 0.8  # of 1: how much a name must look like a setting's to be taken for it


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """One variable. `default` None means computed, as `shown` says; `low` and `high` bound a whole number."""

    name: str
    kind: Kind
    meaning: str
    default: str | None = ""
    shown: str = ""
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()


VARIABLES: tuple[Variable, ...] = (
    Variable(
        name="FELTDB_DATA_DIR",
        kind="text",
        default=None,
        shown="`./data`",
        meaning="everything the instance keeps: stores, the default database, secrets, metrics",
    ),
    Variable(
        name="DATABASE_URL",
        kind="text",
        default=None,
        shown="SQLite in the data directory",
        meaning="control plane; `postgres://user@host/database` for PostgreSQL",
    ),
    Variable(name="HOST", kind="text", default="127.0.0.1", meaning="address the server listens on"),
    Variable(name="PORT", kind="whole", default="8000", low=1, high=65535, meaning="port the server listens on"),
    Variable(
        name="FELTDB_PROBES_PORT",
        kind="whole",
        default="0",
        low=0,
        high=65535,
        meaning="port on which a process of its own answers health and metrics, whatever the server does; 0 for none",
    ),
    Variable(
        name="ALLOWED_HOSTS",
        kind="list",
        default="127.0.0.1,localhost,[::1]",
        meaning="host names the server answers to, comma separated",
    ),
    Variable(
        name="CSRF_TRUSTED_ORIGINS",
        kind="list",
        shown="none",
        meaning="origins of the console behind a proxy, comma separated",
    ),
    Variable(
        name="HTTPS",
        kind="flag",
        default="false",
        meaning="`true` where a proxy ends TLS: secure cookies, HSTS, and `/metrics` asks for a key",
    ),
    Variable(
        name="DJANGO_SECRET_KEY",
        kind="text",
        shown="made once, in `<data>/secrets`, mode 0600",
        meaning="secret of sessions and signed cursors",
    ),
    Variable(
        name="FELTDB_KEY_PEPPER",
        kind="text",
        shown="made once, in `<data>/secrets`, mode 0600",
        meaning="secret of key digests: without it no key verifies; `v2:<new>,v1:<old>` while keys move to a new one",
    ),
    Variable(
        name="FELTDB_KEY_ENVIRONMENT", kind="text", default="live", meaning="word in every new key, `fdb_<word>_...`"
    ),
    Variable(
        name="FELTDB_PASSWORD_HASHES_AT_ONCE",
        kind="whole",
        default="2",
        low=1,
        high=16,
        meaning="passwords that one process checks at once, each in 19 MiB; a few more wait, others get 503",
    ),
    Variable(
        name="FELTDB_GRANT_KEYS",
        kind="text",
        shown="made once, in `<data>/secrets`",
        meaning="seeds that sign grants, for hosts that share one database; else each instance has its own",
    ),
    Variable(
        name="FELTDB_AUDIT_RETENTION_DAYS",
        kind="whole",
        default="400",
        low=1,
        high=36_500,
        meaning="days that `manage.py audit prune` keeps events unless told otherwise",
    ),
    Variable(
        name="FELTDB_GRANT_RETENTION_DAYS",
        kind="whole",
        default="90",
        low=0,
        high=36_500,
        meaning="days that a grant is kept after its end before the worker removes it; 0 keeps it for ever",
    ),
    Variable(
        name="WEB_WORKERS",
        kind="whole",
        default="2",
        low=1,
        high=64,
        meaning="server processes; never more than `FELTDB_MAX_IN_FLIGHT`",
    ),
    Variable(
        name="WEB_THREADS",
        kind="whole",
        default=None,
        shown="enough for all that may run or wait at once",
        low=2,
        high=1024,
        meaning="threads of one server process; more than its share of requests in flight, so that a refusal is quick",
    ),
    Variable(
        name="FELTDB_MAX_IN_FLIGHT",
        kind="whole",
        default=None,
        shown="4 for each core, at least 4 for each process, at most 64",
        low=1,
        high=64,
        meaning="requests the instance works on at once, shared among its processes; one more is refused with 503",
    ),
    Variable(
        name="FELTDB_REQUEST_DEADLINE_MS",
        kind="whole",
        default="10000",
        low=100,
        high=600_000,
        meaning="milliseconds a request may take, waiting included",
    ),
    Variable(
        name="FELTDB_FEED_MAX_WAITING",
        kind="whole",
        default="8",
        low=1,
        high=10_000,
        meaning="requests of one process that may wait for changes at once; each holds a thread",
    ),
    Variable(
        name="FELTDB_STREAM_MAX_LIFE_S",
        kind="whole",
        default="300",
        low=1,
        high=86_400,
        meaning="seconds after which a stream of `/v1/events` is ended cleanly; its client goes on where it was",
    ),
    Variable(
        name="FELTDB_RATE_LIMIT",
        kind="whole",
        default="0",
        low=0,
        high=1_000_000,
        meaning="requests a second of one key over all processes, ten seconds' worth saved up at most; 0 for no limit",
    ),
    Variable(
        name="FELTDB_CORS_ORIGINS",
        kind="list",
        shown="none",
        meaning="origins whose pages may call the API from a browser, comma separated, as `https://app.example.com`",
    ),
    Variable(
        name="FELTDB_CONNECTION_DEADLINE_MS",
        kind="whole",
        default="15000",
        low=100,
        high=600_000,
        meaning="milliseconds for a whole request to arrive, and for its whole answer to be taken",
    ),
    Variable(
        name="FELTDB_MAX_CONNECTIONS",
        kind="whole",
        default="1000",
        low=8,
        high=100_000,
        meaning="open connections of one server process; beyond, the longest idle one is closed",
    ),
    Variable(
        name="FELTDB_APPS",
        kind="list",
        shown="none",
        meaning="Django apps of your own whose `capabilities.py` the worker runs, comma separated",
    ),
    Variable(
        name="FELTDB_WORK_RETENTION_DAYS",
        kind="whole",
        default="0",
        low=0,
        high=36_500,
        meaning="days that finished work is kept before the worker moves it to the archive; 0 keeps it for ever",
    ),
    Variable(
        name="FELTDB_HISTORY_DAYS",
        kind="whole",
        default="30",
        low=0,
        high=36_500,
        meaning="days of history that compaction keeps in every store; 0 for no limit by age",
    ),
    Variable(
        name="FELTDB_HISTORY_MIB",
        kind="whole",
        default="0",
        low=0,
        high=1_000_000_000,
        meaning="MiB of history that compaction keeps in every store, whatever its age; 0 for no limit by size",
    ),
    Variable(
        name="FELTDB_HISTORY_OPERATIONS",
        kind="whole",
        default="0",
        low=0,
        high=1_000_000_000,
        meaning="newest operations that compaction keeps in every store, whatever their age and size; 0 for none",
    ),
    Variable(
        name="FELTDB_COMPACT_EVERY_MINUTES",
        kind="whole",
        default="60",
        low=0,
        high=100_000,
        meaning="minutes between two looks of the worker at whether a store is to be compacted; 0 for never by itself",
    ),
    Variable(
        name="FELTDB_BACKUP_DIR",
        kind="text",
        default=None,
        shown="`<data>/backups`",
        meaning="where backups are written and looked for; better on another disk",
    ),
    Variable(
        name="FELTDB_BACKUP_MAX_AGE_HOURS",
        kind="whole",
        default="0",
        low=0,
        high=100_000,
        meaning="hours after which a last good backup counts as too old, in doctor and metrics; 0 does not watch it",
    ),
    Variable(
        name="FELTDB_WEBHOOK_SECRETS",
        kind="list",
        shown="made once, in `<data>/secrets`, mode 0600",
        meaning="secrets that webhook signatures are derived from, newest first; each signs, so that they can change",
    ),
    Variable(
        name="FELTDB_WEBHOOK_LOCAL_TARGETS",
        kind="list",
        shown="none",
        meaning="exact `host:port` that webhooks may call although they are not public addresses, comma separated",
    ),
    Variable(
        name="WORKER_CONCURRENCY",
        kind="whole",
        default="8",
        low=1,
        high=64,
        meaning="programs that run at once in the worker",
    ),
    Variable(
        name="LOG_LEVEL",
        kind="text",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        meaning="least severe events that are logged",
    ),
    Variable(
        name="LOG_FORMAT",
        kind="text",
        default="text",
        choices=("text", "json"),
        meaning="`text` for people, `json` for one JSON object a line",
    ),
    Variable(name="ACCESS_LOG", kind="flag", default="false", meaning="`true` logs every request as one event"),
    Variable(
        name="DEBUG",
        kind="flag",
        default="false",
        meaning="`true` for developing FeltDB itself; never where others reach it",
    ),
)
_BY_NAME = {variable.name: variable for variable in VARIABLES}


def text(name: str, default: str | None = None, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return the text of variable `name`; an empty one is its default. Raises ImproperlyConfigured naming it."""
    variable = _BY_NAME[name]
    value = environment.get(name, "").strip() or (variable.default if default is None else default)
    if value is None:
        raise ImproperlyConfigured(f"{name} has no value")
    if variable.choices and value not in variable.choices and value.upper() not in variable.choices:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(variable.choices)}")
    return value


def whole(name: str, default: int | None = None, *, environment: Mapping[str, str] = os.environ) -> int:
    """Return the whole number of variable `name`. Raises ImproperlyConfigured naming it, with its bounds."""
    variable = _BY_NAME[name]
    given = text(name, None if default is None else str(default), environment=environment)
    bounds = f"a whole number from {variable.low} to {variable.high}"
    if not (given.removeprefix("-").isascii() and given.removeprefix("-").isdigit() and len(given) <= 20):
        raise ImproperlyConfigured(f"invalid {name}: {given!r} is not {bounds}")
    value = int(given)
    if value < variable.low:
        raise ImproperlyConfigured(f"{name} is {value}; it must be at least {variable.low} ({bounds})")
    if value > variable.high:
        raise ImproperlyConfigured(f"{name} is {value}; it must be at most {variable.high} ({bounds})")
    return value


def flag(name: str, *, environment: Mapping[str, str] = os.environ) -> bool:
    """Return the truth of variable `name`. Raises ImproperlyConfigured for what is neither true nor false."""
    given = text(name, environment=environment).lower()
    if given not in _TRUE | _FALSE:
        raise ImproperlyConfigured(f"{name} is {given!r}; it must be true or false")
    return given in _TRUE


def listed(name: str, *, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the comma-separated members of variable `name`."""
    return [member.strip() for member in text(name, environment=environment).split(",") if member.strip()]


def named() -> list[str]:
    """Return the names of all variables."""
    return list(_BY_NAME)


def mistyped(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that are no setting but look like one that is spelled wrong, each with the right name."""
    found = {}
    for name in sorted(environment):
        if name.startswith("FELTDB_") and name not in _BY_NAME:
            meant = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=ALIKE)
            if meant:
                found[name] = meant[0]
    return found


def reference() -> str:
    """Return the table for users, in Markdown."""
    lines = [
        "# Settings",
        "",
        "All from the environment; the defaults are safe for one machine. A value that cannot be used stops the start,",
        "which names its variable. Made by `python -m feltsite.environment > docs/settings.md`.",
        "",
        "| variable | default | bounds | meaning |",
        "|---|---|---|---|",
    ]
    for variable in VARIABLES:
        default = variable.shown or (f"`{variable.default}`" if variable.default else "none")
        bounds = f"{variable.low} to {variable.high}" if variable.kind == "whole" else ", ".join(variable.choices)
        lines.append(f"| `{variable.name}` | {default} | {bounds} | {variable.meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
