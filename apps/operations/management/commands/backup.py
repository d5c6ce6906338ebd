"""`manage.py backup`: one bundle of the whole instance, and an instance out of one. Thin: `services/backups/`."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.http.errors import ApiError
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.principal import operator
from apps.operations.progress import MIB, Shown
from apps.operations.services import backups
from apps.operations.services.backups import Bundle
from apps.workloads.clock import now_ms
from feltdb_engine import EngineError

OPERATOR = operator("command-line")


class Command(PlainCommand):
    """Create, verify, restore, list."""

    help = (
        "Back up control plane, stores and archived work as one bundle while the instance serves; verify and restore "
        "it. Secrets are in no bundle: 'manage.py secrets export'. Exit code 0: done; 1: refused; 3: storage."
    )
    refusals = (ApiError, sqlite3.Error)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="create|verify|restore|list")
        create = commands.add_parser("create", help="write a new bundle; safe while the instance serves and works")
        create.add_argument(
            "bundle",
            nargs="?",
            help="a name in FELTDB_BACKUP_DIR, or a path with a '/' (default: feltdb-<date>T<time>Z)",
        )
        create.add_argument("--reason", default="", help="why, for the audit")
        verify = commands.add_parser("verify", help="hold every byte against what was written; changes nothing")
        verify.add_argument("bundle", help="a name in FELTDB_BACKUP_DIR, or a path with a '/'")
        restore = commands.add_parser(
            "restore",
            help="make this instance of a bundle; stop everything first. Refused where an instance is here already",
        )
        restore.add_argument("bundle", help="a name in FELTDB_BACKUP_DIR, or a path with a '/'")
        restore.add_argument(
            "--replace", action="store_true", help="set the instance that is here aside, into <data>/replaced-<time>"
        )
        restore.add_argument(
            "--namespace", help="only the records of this one, as a directory of its own: needs --into"
        )
        restore.add_argument("--into", type=Path, help="a new directory for --namespace; no instance is touched")
        restore.add_argument("--revision", type=int, help="with --namespace: stop at this sequence")
        listed = commands.add_parser("list", help="list the bundles in FELTDB_BACKUP_DIR, the newest first")
        for command in (create, verify, restore, listed):
            add_json_option(command)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"])(options)

    def _create(self, options: dict[str, Any]) -> None:
        dest = _path(options["bundle"] or backups.new_name(now_ms()))
        with Shown(self.stderr, "backing up") as shown:
            made = backups.create(dest, by=OPERATOR, reason=options["reason"], show=shown)
        if options["json"]:
            self.emit({"path": str(dest), **made.document()})
            return
        self.stdout.write(f"{dest}: {line(made)}")
        self.stdout.write("Secrets are not in it: manage.py secrets export FILE, once and after each rotation.")

    def _verify(self, options: dict[str, Any]) -> None:
        path = _path(options["bundle"])
        try:
            with Shown(self.stderr, "verifying") as shown:
                seen = backups.verify(path, shown)
        except EngineError as error:
            if options["json"]:
                self.emit(
                    {"ok": False, "path": str(path), "code": error.code, "message": error.message, **error.details}
                )
            raise
        if options["json"]:
            self.emit({"ok": True, "path": str(path), **seen.document()})
        else:
            self.stdout.write(f"{path}: whole; {line(seen)}")

    def _restore(self, options: dict[str, Any]) -> None:
        path = _path(options["bundle"])
        if options["namespace"] or options["into"] or options["revision"] is not None:
            self._restore_store(path, options)
            return
        with Shown(self.stderr, "restoring") as shown:
            done = backups.restore(path, by=OPERATOR, replace=options["replace"], show=shown)
        lost = [{"name": each.name, "consequence": each.consequence} for each in done.lost]
        if options["json"]:
            aside = str(done.set_aside) if done.set_aside else None
            self.emit({**done.bundle.document(), "set_aside": aside, "lost_secrets": lost, "apart": list(done.apart)})
        else:
            self.stdout.write(f"restored: {line(done.bundle)}")
            if done.set_aside:
                self.stdout.write(f"What was here lies in {done.set_aside}; delete it once it is needed no more.")
            for each in done.lost:
                self.stdout.write(f"MISSING SECRET  {each.name}; {each.consequence}")
            if done.lost:
                self.stdout.write("Bring them back before starting: manage.py secrets import FILE")
            for name in done.apart:
                self.stdout.write(f"APART  {name}: manage.py doctor --reconcile --namespace {name} --dry-run")
        if done.apart:
            self.refuse("store and database do not belong together; see above")

    def _restore_store(self, path: Path, options: dict[str, Any]) -> None:
        if not (options["namespace"] and options["into"]) or options["replace"]:
            self.refuse("one namespace is restored with --namespace and --into, and never over anything")
        with Shown(self.stderr, "restoring") as shown:
            ends = backups.restore_store(
                path, options["namespace"], options["into"], revision=options["revision"], show=shown
            )
        if options["json"]:
            self.emit({"namespace": options["namespace"], "into": str(options["into"]), "sequence": ends})
        else:
            self.stdout.write(f"{options['into']}: {options['namespace']} up to {ends}, on a timeline of its own")

    def _list(self, options: dict[str, Any]) -> None:
        found = backups.available()
        if options["json"]:
            self.emit(
                {
                    "backups": [
                        {"name": each.name, "path": str(each.path), "trouble": each.trouble}
                        | (each.bundle.document() if each.bundle else {})
                        for each in found
                    ]
                }
            )
            return
        for each in found:
            self.stdout.write(f"{each.name}  {line(each.bundle) if each.bundle else each.trouble}")
        if not found:
            self.stdout.write("there is no backup yet: manage.py backup create")


def _path(given: str) -> Path:
    return Path(given).absolute() if "/" in given else backups.place(given)


def line(bundle: Bundle) -> str:
    """Return what a person wants to know of a bundle, in one line."""
    made = datetime.fromtimestamp(bundle.made_at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    ends = ", ".join(f"{each.name} up to {each.sequence}" for each in bundle.stores[:10])
    more = f" and {len(bundle.stores) - 10} more" if len(bundle.stores) > 10 else ""
    return f"of {made}, {bundle.bytes / MIB:,.1f} MiB, {bundle.database}; {ends or 'no namespace'}{more}"
