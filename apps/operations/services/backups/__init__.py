"""Backups of a whole instance: control plane, stores and archived work in one bundle, made while it serves.

bundle.py      what a bundle holds, and whether it is what was written
databases.py   the control plane of one moment: SQLite by its backup interface, PostgreSQL by pg_dump
creating.py    making one
places.py      where bundles lie, their names, the list
restoring.py   an instance out of one
"""

from apps.operations.services.backups.bundle import Bundle, verify
from apps.operations.services.backups.creating import create
from apps.operations.services.backups.places import Listed, available, new_name, place
from apps.operations.services.backups.restoring import Restored, restore, restore_store

__all__ = [
    "Bundle",
    "Listed",
    "Restored",
    "available",
    "create",
    "new_name",
    "place",
    "restore",
    "restore_store",
    "verify",
]
