"""`manage.py setup`: make the database, the first operator and the first key where they are missing."""

import errno
import fcntl
import socket
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import OperationalError, connection

from apps.operations.services import versions
from apps.operations.services.backups import restoring
from apps.operations.services.first_setup import FirstSecrets, prepare_instance


class Command(BaseCommand):
    """Thin: the work is in `apps.operations.services.first_setup`."""

    help = (
        "Bring the database up to date and, on the first run, create an operator account and an API key "
        "and show both once. Running it again changes nothing that exists."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--for-server",
            action="store_true",
            help="also check that the server's address is free, and say where it will serve",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepare under a lock, so that two starts at once do not make two first keys."""
        for name, meant in settings.MISTYPED.items():
            self.stderr.write(f"{name} is no setting and means nothing; is {meant} meant? See docs/settings.md.")
        if options["for_server"]:
            refuse_taken_address(settings.HOST, settings.PORT)
        with (settings.DATA_DIR / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refuse_unfinished_restore()
            refuse_closed_database()
            refuse_newer_database()
            call_command("migrate", verbosity=0, interactive=False)
            made = prepare_instance()
        self.show(made)
        if options["for_server"]:
            address = f"http://{settings.HOST}:{settings.PORT}"
            self.stdout.write(f"Data    {settings.DATA_DIR}")
            self.stdout.write(
                f"API     {address}/v1      console {address}/admin/      Ctrl-C stops the server and its worker"
            )
            self.stdout.flush()

    def show(self, made: FirstSecrets) -> None:
        """Print the new secrets, which are shown this once."""
        if made.operator_password is None and made.key_secret is None:
            return
        self.stdout.write("")
        self.stdout.write("  Keep these now: they are shown this once and stored nowhere in clear.")
        if made.operator_password is not None:
            self.stdout.write(f"  operator   {made.operator_name}   password   {made.operator_password}")
        if made.key_secret is not None:
            self.stdout.write(f"  API key    export FELTDB_KEY={made.key_secret}")
        self.stdout.write("  Lost them? .venv/bin/python manage.py changepassword admin")
        self.stdout.write("             .venv/bin/python manage.py keys create --help")
        self.stdout.write("")


def refuse_unfinished_restore() -> None:
    """Raise `CommandError` where a restore was cut off: what is here is not an instance yet."""
    source = restoring.unfinished(settings.DATA_DIR)
    if source:
        raise CommandError(
            f"a restore of {source} was cut off; run 'manage.py backup restore {source} --replace' again, to its end"
        )


def refuse_closed_database() -> None:
    """Raise `CommandError` where the control plane's database does not let us in."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        raise CommandError(f"cannot open the database that DATABASE_URL names: {error}") from error


def refuse_newer_database() -> None:
    """Raise `CommandError` where a newer version has used the database: this one would not keep its rules."""
    unknown = versions.apart()[1]
    if unknown:
        raise CommandError(
            f"the database is of a newer version ({versions.shown(unknown)}). Run that version, or restore the backup "
            "taken before the upgrade; nothing was changed. See docs/upgrading.md."
        )


def refuse_taken_address(host: str, port: int) -> None:
    """Raise `CommandError` where something already listens on the address, before anything starts."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"{host}:{port} is taken, perhaps by another FeltDB. Stop that one, or choose: PORT=8001 make run"
            ) from error
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
