"""Backups of a whole instance: control plane, stores and archived work in one bundle, made while it serves.

bundle.py      what a bundle holds, and whether it is what was written
databases.py   the control plane of one moment: SQLite by its backup interface, PostgreSQL by pg_dump
creating.py    making one
places.py      where bundles lie, their names, the list
verifying.py   holding one against its manifest, noted as a run
restoring.py   an instance out of one
"""

from apps.operations.services.backups.bundle import Bundle, verify
from apps.operations.services.backups.creating import create, refuse_beforehand
from apps.operations.services.backups.places import Listed, available, listed, new_name, newest, place
from apps.operations.services.backups.restoring import Restored, restore, restore_store
from apps.operations.services.backups.verifying import last_verified, verify_and_note

__all__ = [
    "Bundle",
    "Listed",
    "Restored",
    "available",
    "create",
    "last_verified",
    "listed",
    "new_name",
    "newest",
    "place",
    "refuse_beforehand",
    "restore",
    "restore_store",
    "verify",
    "verify_and_note",
]
