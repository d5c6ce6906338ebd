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


def available() -> Sequence[Listed]:
    """Return what lies in `FELTDB_BACKUP_DIR`, the newest first; those that cannot be believed come last."""
    folder = Path(settings.BACKUP_DIR)
    if not folder.is_dir():
        return []
    names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))[:MAX_LISTED]
    found = [_listed(folder / name) for name in names]
    return sorted(found, key=lambda each: (each.bundle is None, -(each.bundle.made_at_ms if each.bundle else 0)))


def _listed(path: Path) -> Listed:
    try:
        return Listed(name=path.name, path=path, bundle=bundle.read(path))
    except (BackupInvalid, OSError) as error:
        return Listed(name=path.name, path=path, bundle=None, trouble=str(error))
