"""`manage.py keys create|list|show|revoke`: API keys from the command line, which acts as the operator."""

import argparse
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.keys import services, shapes
from apps.keys.clock import utc_now
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.limits import DEFAULT_PAGE, MAX_PAGE
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from apps.keys.scopes import SCOPES

OPERATOR = operator("command-line")

EPILOG = "exit codes: 0 done, 1 refused, 2 usage, 3 storage\n\nscopes:\n" + "\n".join(
    f"  {scope:<20} {meaning}" for scope, meaning in SCOPES.items()
)


class Command(PlainCommand):
    """Parses, calls the service, prints."""

    help = "Create, list, show and revoke API keys."
    refusals = (services.KeyRefused,)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="create|list|show|revoke")
        self._add_create(commands)
        listing = commands.add_parser("list", help="list keys, newest first; never their secrets")
        listing.add_argument("--namespace", help="only keys that open this namespace")
        listing.add_argument("--all", action="store_true", help="revoked and expired keys too")
        listing.add_argument("--limit", type=_page_size, default=DEFAULT_PAGE, metavar="N", help="keys to list")
        listing.add_argument("--after", metavar="ID", help="go on after this key")
        add_json_option(listing)
        show = commands.add_parser("show", help="show one key; never its secret")
        show.add_argument("id", help="the key's public id")
        add_json_option(show)
        revoke = commands.add_parser("revoke", help="end a key at once, in every running process")
        revoke.add_argument("id", help="the key's public id")
        add_json_option(revoke)

    def _add_create(self, commands: Any) -> None:
        create = commands.add_parser(
            "create",
            help="make a key and show its secret once",
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        create.add_argument("--name", required=True, help="what the key is for, as lists show it")
        create.add_argument(
            "--scope", action="append", required=True, metavar="S[,S]", help="what it may do; repeat or use commas"
        )
        create.add_argument(
            "--namespace", action="append", metavar="N[,N]", help="where it may do it (default: default); '*' for all"
        )
        create.add_argument("--worker", metavar="ID", help="make it the key of exactly this worker")
        create.add_argument("--kind", choices=["service", "agent"], default="service", help="whom the key acts for")
        create.add_argument("--collection", action="append", metavar="C[,C]", help="only these collections")
        ends = create.add_mutually_exclusive_group()
        ends.add_argument("--expires-in", type=_duration, metavar="90d", help="end after this many s, m, h or d")
        ends.add_argument("--expires-at", type=_instant, metavar="2027-01-31T00:00:00Z", help="end at this instant")
        create.add_argument(
            "--secret-file", type=Path, metavar="PATH", help="write the secret here (mode 0600), not to the screen"
        )
        add_json_option(create)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"])(options)

    def _create(self, options: dict[str, Any]) -> None:
        now = utc_now()
        expires_at = now + options["expires_in"] if options["expires_in"] else options["expires_at"]
        path: Path | None = options["secret_file"]
        descriptor = None if path is None else self._new_secret_file(path)
        try:
            issued = services.issue_key(
                name=options["name"],
                namespaces=_split(options["namespace"]) or ["default"],
                scopes=_split(options["scope"]),
                kind=options["kind"],
                worker_id=options["worker"],
                collections=_split(options["collection"]) or None,
                expires_at=expires_at,
                issuer=OPERATOR,
                now=now,
            )
        except BaseException:
            if path is not None and descriptor is not None:
                os.close(descriptor)
                path.unlink()
            raise
        if descriptor is not None:
            _write_secret(descriptor, issued.secret)
        self._print_created(issued, path, as_json=options["json"])

    def _new_secret_file(self, path: Path) -> int:
        """Take the file before the key is made: a secret that cannot be written is never issued."""
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            self.refuse(f"{path} is there already; a secret never overwrites a file")
        except OSError as error:
            self.refuse(f"the secret file cannot be made: {error}")

    def _print_created(self, issued: services.IssuedKey, path: Path | None, *, as_json: bool) -> None:
        if as_json:
            self.emit(shapes.created(issued.key, None if path else issued.secret))
            return
        self._print_key(issued.key)
        if path is not None:
            self.stdout.write(f"secret      written to {path}")
            return
        self.stdout.write(f"secret      {issued.secret}")
        self.stdout.write("This is the only time the secret is shown.")

    def _list(self, options: dict[str, Any]) -> None:
        page = services.list_keys(
            reader=OPERATOR,
            now=utc_now(),
            namespace=options["namespace"],
            live_only=not options["all"],
            after=options["after"],
            limit=options["limit"],
        )
        if options["json"]:
            self.emit({"keys": [shapes.summary(key) for key in page.keys], "next_cursor": page.next_after})
            return
        now = utc_now()
        for key in page.keys:
            self.stdout.write(f"{key.id}  {key.state(now):<8}  {','.join(key.namespaces):<16}  {key.name}")
        if not page.keys:
            self.stderr.write("no keys; make one with: manage.py keys create --name NAME --scope state:read")
        if page.next_after is not None:
            self.stderr.write(f"there are more: --after {page.next_after}")

    def _show(self, options: dict[str, Any]) -> None:
        key = services.get_key(options["id"], reader=OPERATOR)
        self.emit(shapes.summary(key)) if options["json"] else self._print_key(key)

    def _revoke(self, options: dict[str, Any]) -> None:
        key = services.revoke_key(options["id"], by=OPERATOR)
        if options["json"]:
            self.emit(shapes.summary(key))
        else:
            self.stdout.write(f"{key.id} ({key.name}) is revoked since {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC")

    def _print_key(self, key: ApiKey) -> None:
        lines = {
            "id": key.id,
            "name": key.name,
            "state": key.state(utc_now()),
            "acts as": f"worker {key.worker_id}" if key.worker_id else key.kind,
            "namespaces": " ".join(key.namespaces),
            "scopes": " ".join(key.scopes),
            "collections": "all" if key.collections is None else " ".join(key.collections),
            "expires": "never" if key.expires_at is None else key.expires_at.isoformat(timespec="seconds"),
            "created": f"{key.created_at.isoformat(timespec='seconds')} by {key.created_by}",
            "last used": "never" if key.last_used_at is None else key.last_used_at.isoformat(timespec="seconds"),
        }
        for label, value in lines.items():
            self.stdout.write(f"{label:<12}{value}")


def _split(values: list[str] | None) -> list[str]:
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError("write a whole number and s, m, h or d, for example 90d")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[match.group(2)]
    return timedelta(**{unit: int(match.group(1))})


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write an instant such as 2027-01-31T00:00:00Z") from error
    if instant.tzinfo is None:
        raise argparse.ArgumentTypeError("name the time zone, for example 2027-01-31T00:00:00Z")
    return instant.astimezone(UTC)


def _page_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PAGE:
        raise argparse.ArgumentTypeError(f"write a whole number from 1 to {MAX_PAGE}")
    return int(text)


def _write_secret(descriptor: int, secret: str) -> None:
    with os.fdopen(descriptor, "w", encoding="ascii") as handle:
        handle.write(secret + "\n")
        handle.flush()
        os.fsync(handle.fileno())
