"""How much there is and how much room is left: disk, stores, tables of the control plane. No row is counted.

Sizes of tables are estimates: PostgreSQL's own, as of its last look; on SQLite the highest row number, an upper bound.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Model

from apps.http.errors import ApiError
from apps.keys.models import ApiKey, AuditEvent, IssuedGrant, Namespace
from apps.operations.services.storage import MAX_NAMESPACES
from apps.state.stores import store_of_known
from apps.triggers.models import Trigger, TriggerQuarantine
from apps.workloads.models import Attempt, Checkpoint, Event, Request, Result, Workload
from feltdb_engine import EngineError
from feltdb_engine.stats import Stats

TABLES: tuple[type[Model], ...] = (
    *(Workload, Request, Attempt, Event, Result, Checkpoint),
    *(Trigger, TriggerQuarantine, ApiKey, IssuedGrant, AuditEvent),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSize:
    """One namespace's store: its sizes, or why they cannot be had."""

    namespace: str
    stats: Stats | None
    trouble: str = ""

    @property
    def disk_bytes(self) -> int:
        """Return what it takes on the disk."""
        found = self.stats
        return 0 if found is None else found.log_disk_bytes + found.view_disk_bytes + found.snapshot_disk_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSize:
    """One table: about how many rows; None where the database has not looked yet."""

    name: str
    rows: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """Everything. `database_bytes` None where the database does not say."""

    free_bytes: int
    size_bytes: int
    stores: Sequence[StoreSize]
    tables: Sequence[TableSize]
    database: str
    database_bytes: int | None

    @property
    def free_share(self) -> int:
        """Return the per cent of the disk that are free."""
        return 100 * self.free_bytes // max(1, self.size_bytes)


def capacity() -> Capacity:
    """Look at everything once."""
    disk = shutil.disk_usage(settings.DATA_DIR)
    names = Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMESPACES]
    return Capacity(
        free_bytes=disk.free,
        size_bytes=disk.total,
        stores=[_size_of(name) for name in names],
        tables=_tables(),
        database="SQLite" if connection.vendor == "sqlite" else "PostgreSQL",
        database_bytes=_database_bytes(),
    )


def _size_of(namespace: str) -> StoreSize:
    try:
        return StoreSize(namespace=namespace, stats=store_of_known(namespace).stats())
    except (EngineError, ApiError) as error:
        return StoreSize(namespace=namespace, stats=None, trouble=f"{error.code}: {error.message}")


def _tables() -> list[TableSize]:
    """Ask for the size of every table in one statement."""
    names = {model._meta.db_table: str(model._meta.verbose_name_plural) for model in TABLES}
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # Names of our own tables; the row number is the primary key where that is a number.
            one = "SELECT '{0}', (SELECT MAX(rowid) FROM \"{0}\")"
            parts = [one.format(table) for table in names]
            cursor.execute(" UNION ALL ".join(parts))
        else:
            cursor.execute(
                "SELECT relname, reltuples::bigint FROM pg_class WHERE relname = ANY(%s) AND relkind = 'r'",
                [list(names)],
            )
        found = dict(cursor.fetchall())
    at_rest = 0 if connection.vendor == "sqlite" else None
    rows = [(name, found.get(table)) for table, name in names.items()]
    return [TableSize(name=name, rows=at_rest if count is None or count < 0 else count) for name, count in rows]


def _database_bytes() -> int | None:
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        files = [path, path.with_name(f"{path.name}-wal")]
        return sum(each.stat().st_size for each in files if each.is_file()) or None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
