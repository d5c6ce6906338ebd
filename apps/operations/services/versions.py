"""Whether the database is of this code's version: every migration applied, and none that this code does not know."""

from functools import cache

from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

SHOWN = 5


@cache
def _known() -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Return the migrations of this code, and with them those that they replace."""
    disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    replaced = {(app, name) for each in disk.values() for app, name in each.replaces}
    return frozenset(disk), frozenset(disk) | replaced


@cache
def _recorder() -> MigrationRecorder:
    """Return what reads the table of applied migrations: it looks for the table until it has once been there."""
    return MigrationRecorder(connection)


def apart() -> tuple[list[str], list[str]]:
    """Return the migrations that are missing in the database, and those applied that this code does not know.

    One small query. Apps that are not installed are not looked at. Raises DatabaseError.
    """
    needed, known = _known()
    labels = {each.label for each in apps.get_app_configs()}
    applied = {each for each in _recorder().applied_migrations() if each[0] in labels}
    return _named(needed - applied), _named(applied - known)


def _named(migrations: set[tuple[str, str]] | frozenset[tuple[str, str]]) -> list[str]:
    return [f"{app} {name}" for app, name in sorted(migrations)]


def shown(names: list[str]) -> str:
    """Return the first few, for a message."""
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")
