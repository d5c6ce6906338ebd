"""`manage.py keys`: API keys from the command line, which acts as the operator. Thin: the rules are in `apps.keys`."""

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandParser

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.keys import importing, limits, paging, peppering, peppers, reading, services, shapes, tester
from apps.keys.clock import utc_now
from apps.keys.command_line import (
    SecretFileRefused,
    duration,
    instant,
    life,
    page_size,
    read_secret,
    secret_to,
    words,
)
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.errors import KeyRefused
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from apps.keys.scopes import SCOPES

OPERATOR = operator("command-line")

CODES = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
EPILOG = f"{CODES}\n\nscopes:\n" + "\n".join(f"  {scope:<20} {meaning}" for scope, meaning in SCOPES.items())


class Command(PlainCommand):
    """Parses, calls the service, prints."""

    help = "Create, list, show, rotate, revoke, import and check API keys; rotate the pepper they are kept under."
    refusals = (
        KeyRefused,
        SecretFileRefused,
        importing.FileUnusable,
        peppers.PepperRefused,
        ImproperlyConfigured,
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = CODES
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        _add_create(commands)
        listing = commands.add_parser("list", help="list keys, newest first; never their secrets")
        listing.add_argument("--namespace", help="only keys that open this namespace")
        listing.add_argument("--all", action="store_true", help="revoked and expired keys too")
        listing.add_argument("--limit", type=page_size, default=limits.DEFAULT_PAGE, metavar="N", help="keys to list")
        listing.add_argument("--after", metavar="CURSOR", help="go on where a list ended")
        show = commands.add_parser("show", help="show one key and which of its rights it used; never its secret")
        rotate = commands.add_parser("rotate", help="give a key a new secret; id and rights stay")
        rotate.add_argument(
            "--grace", type=duration, default="0s", metavar="1h", help="how long the old secret goes on (default: 0s)"
        )
        rotate.add_argument(
            "--end-old", action="store_true", help="make no new secret; end the old one of an earlier rotation now"
        )
        revoke = commands.add_parser("revoke", help="end a key at once, in every running process")
        for command in (show, rotate, revoke):
            command.add_argument("id", help="the key's public id")
        _add_secret_file(rotate)
        check = commands.add_parser(
            "check",
            help="say whether a call would pass, and which rule decides",
            description="Reads the key from standard input or --secret-file. Ends with 1 where it would be refused.",
        )
        check.add_argument("method", type=str.upper, choices=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
        check.add_argument("path", help="as in the request, for example /v1/collections/orders")
        check.add_argument("--namespace", metavar="N", help="the header FeltDB-Namespace of the request")
        check.add_argument("--secret-file", type=Path, metavar="PATH", help="read the key from this file")
        taken = commands.add_parser(
            "import",
            help="take the keys of the reference server's key file; their secrets go on",
            description="Keys that are here already are left alone. Ends with 1 where a key was refused.",
        )
        taken.add_argument("file", type=Path, help="api-keys.json")
        taken.add_argument(
            "--rename-namespace", action="append", default=[], type=_renaming, metavar="OLD=NEW", help="repeatable"
        )
        for command in (listing, show, rotate, revoke, check, taken):
            add_json_option(command)
        _add_pepper(commands)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"])(options)

    def _create(self, options: dict[str, Any]) -> None:
        now = utc_now()
        expires_at = now + options["expires_in"] if options["expires_in"] else options["expires_at"]
        with secret_to(options["secret_file"]) as file:
            issued = services.issue_key(
                name=options["name"],
                namespaces=words(options["namespace"]) or ["default"],
                scopes=words(options["scope"]),
                kind=options["kind"],
                worker_id=options["worker"],
                collections=words(options["collection"]) or None,
                expires_at=expires_at,
                issuer=OPERATOR,
                now=now,
            )
        if file is not None:
            file.write(issued.secret)
        self._print_secret(issued, options, shapes.created(issued.key, None if file else issued.secret))

    def _rotate(self, options: dict[str, Any]) -> None:
        if options["end_old"]:
            ended = services.end_old_secret(options["id"], by=OPERATOR)
            said = "its old secret has ended" if ended else "it had no old secret any more"
            self.emit({"id": options["id"], "ended": ended}) if options["json"] else self.stdout.write(said)
            return
        now, grace = utc_now(), options["grace"]
        with secret_to(options["secret_file"]) as file:
            issued = services.rotate_key(options["id"], by=OPERATOR, grace=grace, now=now)
        if file is not None:
            file.write(issued.secret)
        ends_at: datetime | None = now + grace if grace else None
        self._print_secret(issued, options, shapes.rotated(issued.key, None if file else issued.secret, ends_at))
        if not options["json"]:
            when = f"goes on until {ends_at:%Y-%m-%d %H:%M:%S} UTC" if ends_at else "has ended"
            self.stdout.write(f"The old secret {when}.")

    def _print_secret(self, issued: services.IssuedKey, options: dict[str, Any], document: dict[str, Any]) -> None:
        if options["json"]:
            self.emit(document)
            return
        self._print_key(issued.key)
        if options["secret_file"] is not None:
            self.stdout.write(f"secret      written to {options['secret_file']}")
            return
        self.stdout.write(f"secret      {issued.secret}")
        self.stdout.write("This is the only time the secret is shown.")

    def _list(self, options: dict[str, Any]) -> None:
        shape = ("keys", options["namespace"], int(options["all"]))
        try:
            below = paging.decode(options["after"], *shape)
        except ApiError as refused:
            self.refuse(refused.message)
        now = utc_now()
        page = reading.list_keys(
            reader=OPERATOR,
            now=now,
            namespace=options["namespace"],
            live_only=not options["all"],
            below=below,
            limit=options["limit"],
        )
        cursor = paging.encode(page.below, *shape)
        if options["json"]:
            self.emit({"keys": [shapes.summary(key) for key in page.keys], "next_cursor": cursor})
            return
        for key in page.keys:
            self.stdout.write(f"{key.id}  {key.state(now):<8}  {','.join(key.namespaces):<16}  {key.name}")
        if cursor is not None:
            self.stderr.write(f"there are more: --after {cursor}")
        elif not page.keys:
            self.stderr.write("no keys; make one with: manage.py keys create --name NAME --scope state:read")

    def _show(self, options: dict[str, Any]) -> None:
        key = reading.get_key(options["id"], reader=OPERATOR)
        document = shapes.detail(key, now=utc_now())
        if options["json"]:
            self.emit(document)
            return
        self._print_key(key)
        used = document["scopes_used"]
        unused = [scope for scope in key.scopes if scope not in used and scope != "*"]
        self.stdout.write(f"{'used':<12}{' '.join(used) or 'none of its scopes yet'}")
        self.stdout.write(f"{'unused':<12}{' '.join(unused) or 'none'}")
        self.stdout.write(f"{'secrets':<12}{len(document['secrets'])}")

    def _revoke(self, options: dict[str, Any]) -> None:
        key = services.revoke_key(options["id"], by=OPERATOR)
        if options["json"]:
            self.emit(shapes.summary(key))
        else:
            self.stdout.write(f"{key.id} ({key.name}) is revoked since {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC")

    def _check(self, options: dict[str, Any]) -> None:
        now, secret = utc_now(), read_secret(options["secret_file"])
        try:
            principal, verdict = tester.would_pass(
                secret, options["method"], options["path"], namespace=options["namespace"], now=now
            )
        except ApiError as busy:
            self.refuse(busy.message)
        why = tester.why_nobody(secret, now=now) if principal is None and verdict.rule == "key" else verdict.why
        key_id = None if principal is None else principal.key_id
        if options["json"]:
            self.emit(
                {
                    "passes": verdict.passes,
                    "rule": verdict.rule,
                    "why": why,
                    "status": verdict.status,
                    "code": verdict.code,
                    "key_id": key_id,
                    "left_to_the_body": list(verdict.left),
                }
            )
        else:
            answer = "passes" if verdict.passes else f"is refused with {verdict.status} {verdict.code}"
            self.stdout.write(f"{options['method']} {options['path']} {answer}")
            self.stdout.write(f"{'decided by':<12}{verdict.rule}: {why}")
            self.stdout.write(f"{'key':<12}{key_id or 'none'}")
            for each in verdict.left:
                self.stdout.write(f"{'and':<12}{each}")
        if not verdict.passes:
            raise SystemExit(1)

    def _import(self, options: dict[str, Any]) -> None:
        with options["file"].open("rb") as handle:
            raw = handle.read(limits.MAX_KEY_FILE_BYTES + 1)
        if len(raw) > limits.MAX_KEY_FILE_BYTES:
            self.refuse(f"the file is larger than {limits.MAX_KEY_FILE_BYTES} bytes")
        try:
            document = strict_json.loads(raw)
        except ApiError as malformed:
            self.refuse(f"the file is no JSON: {malformed.message}")
        renamed = dict(options["rename_namespace"])
        results = importing.import_keys(document, by=OPERATOR, now=utc_now(), namespaces=renamed)
        if options["json"]:
            members = ("id", "outcome", "note")
            self.emit({"keys": [{name: getattr(each, name) for name in members} for each in results]})
        else:
            for each in results:
                self.stdout.write(f"{each.id:<16}  {each.outcome:<12}  {each.note}".rstrip())
        refused = sum(each.outcome == "refused" for each in results)
        if refused:
            self.refuse(f"{refused} of {len(results)} keys were not imported")

    def _pepper(self, options: dict[str, Any]) -> None:
        now = utc_now()
        if options["action"] == "rotate":
            peppering.rotate(by=OPERATOR, now=now)
        elif options["action"] == "drop":
            peppering.drop(options["version"], by=OPERATOR, now=now)
        standings = peppering.standings(now=now)
        if options["json"]:
            members = ("version", "current", "present", "genuine", "live_secrets")
            self.emit({"peppers": [{name: getattr(each, name) for name in members} for each in standings]})
            return
        for each in standings:
            state = "missing" if not each.present else "another than it was" if not each.genuine else "here"
            mark = ", current" if each.current else ""
            self.stdout.write(f"version {each.version}  {state}{mark}; {each.live_secrets} live secrets under it")

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


def _add_create(commands: Any) -> None:
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
    ends.add_argument("--expires-in", type=life, metavar="90d", help="end after this many s, m, h or d")
    ends.add_argument("--expires-at", type=instant, metavar="2027-01-31T00:00:00Z", help="end at this instant")
    _add_secret_file(create)
    add_json_option(create)


def _add_secret_file(command: Any) -> None:
    command.add_argument(
        "--secret-file", type=Path, metavar="PATH", help="write the secret here (mode 0600), not to the screen"
    )


def _add_pepper(commands: Any) -> None:
    pepper = commands.add_parser("pepper", help="the secrets that digests of keys are kept under: list, rotate, drop")
    actions = pepper.add_subparsers(dest="action", required=True, metavar="list|rotate|drop")
    add_json_option(actions.add_parser("list", help="list peppers and what is kept under each; never the peppers"))
    add_json_option(actions.add_parser("rotate", help="make a new one; keys move to it when they are used"))
    drop = actions.add_parser("drop", help="destroy an old one that nothing live is kept under")
    drop.add_argument("version", type=int)
    add_json_option(drop)


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError("write OLD=NEW")
    return old, new
