"""Where bundles lie, what they are called, and which there are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from apps.http.errors import ApiError
from apps.operations.services.backups import bundle
from apps.operations.services.backups.bundle import Bundle
from feltdb_engine.errors import BackupInvalid

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_LISTED = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A directory among the backups: its manifest, or why that cannot be believed. Its files were not looked at."""

    name: str
    path: Path
    bundle: Bundle | None
    trouble: str = ""

    @property
    def reachable(self) -> bool:
        """Tell whether it can be named to the commands and pages; anything may lie there."""
        return NAME.fullmatch(self.name) is not None


def new_name(now_ms: int) -> str:
    """Return the name of a backup begun now."""
    return "feltdb-" + datetime.fromtimestamp(now_ms / 1000, tz=UTC).strftime("%Y%m%dT%H%M%SZ")


def place(name: str) -> Path:
    """Return where the backup of a plain name lies. Raises ApiError VALIDATION_ERROR for anything that is a path."""
    if not NAME.fullmatch(name):
        raise ApiError(
            "VALIDATION_ERROR", "A backup's name is 1 to 100 of A-Z a-z 0-9 . _ - and begins with a letter or digit."
        )
    return Path(settings.BACKUP_DIR) / name


def name_of(path: Path) -> str:
    """Return what the audit calls a backup: its name alone, since where it lies is this machine's own matter."""
    return path.resolve().name


def available() -> Sequence[Listed]:
    """Return what lies in `FELTDB_BACKUP_DIR`, the newest first; those that cannot be believed come last."""
    found = [listed(path) for path in sorted(_paths())[:MAX_LISTED]]
    return sorted(found, key=lambda each: (each.bundle is None, -(each.bundle.made_at_ms if each.bundle else 0)))


def newest(limit: int) -> tuple[Sequence[Listed], int]:
    """Return those that were written last, the newest first, and how many there are: only these are read."""
    paths = _paths()
    return [listed(path) for path in sorted(paths, key=_written_at, reverse=True)[:limit]], len(paths)


def listed(path: Path) -> Listed:
    """Return what lies there."""
    try:
        return Listed(name=path.name, path=path, bundle=bundle.read(path))
    except (BackupInvalid, OSError) as error:
        return Listed(name=path.name, path=path, bundle=None, trouble=str(error))


def _paths() -> list[Path]:
    folder = Path(settings.BACKUP_DIR)
    return [each for each in folder.iterdir() if not each.name.startswith(".")] if folder.is_dir() else []


def _written_at(path: Path) -> tuple[int, str]:
    for place_ in (path / bundle.MANIFEST, path):
        try:
            return place_.lstat().st_mtime_ns, path.name
        except OSError:
            continue
    return 0, path.name
