"""`manage.py grants`: grants and the keys that sign them. Thin: the rules are in `apps.keys.grants`."""

import time
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandParser
from django.db import transaction

from apps.keys.audit.services import record
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.grants import keyring, reading, services
from apps.keys.grants.errors import GrantRefused
from apps.keys.grants.models import IssuedGrant
from apps.keys.principal import operator

OPERATOR = operator("command-line")


class Command(PlainCommand):
    """List, show and revoke grants; list, rotate and drop the keys that sign them."""

    help = "List, show and revoke grants; list, rotate and drop the keys that sign them."
    refusals = (GrantRefused, keyring.KeyRingRefused, ImproperlyConfigured)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        listing = commands.add_parser("list", help="list grants, newest first")
        listing.add_argument("--all", action="store_true", help="revoked and expired ones too")
        listing.add_argument("--subject", metavar="KIND:ID", help="only grants for this subject")
        show = commands.add_parser("show", help="print one signed grant")
        revoke = commands.add_parser("revoke", help="end a grant, and everything delegated from it, at once")
        revoke.add_argument("--reason", default="", help="why; kept in the audit trail")
        for command in (show, revoke):
            command.add_argument("id", help="the grant's id")
        for command in (listing, show, revoke):
            command.add_argument("--namespace", default="default", help="the grant's namespace (default: default)")
        keys = commands.add_parser("keys", help="list the keys that sign and verify grants; never their private halves")
        rotate = commands.add_parser("rotate-key", help="sign with a new key; what the old one signed still verifies")
        drop = commands.add_parser("drop-key", help="forget a replaced key: every grant it signed is dead")
        drop.add_argument("id", help="the key's id")
        for command in (listing, show, revoke, keys, rotate, drop):
            add_json_option(command)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"].replace("-", "_"))(options, _now_ms())

    def _list(self, options: dict[str, Any], now_ms: int) -> None:
        live_at_ms = None if options["all"] else now_ms
        below: int | None = None
        found: list[IssuedGrant] = []
        while True:
            page = reading.page(
                OPERATOR, options["namespace"], below=below, subject=options["subject"], live_at_ms=live_at_ms
            )
            found += page.rows
            below = page.below
            if below is None:
                break
        if options["json"]:
            self.emit({"grants": [row.signed().wire() for row in found], "next_cursor": None})
            return
        for row in found:
            state = "revoked" if row.revoked_at_ms else "expired" if row.expires_at_ms <= now_ms else "live"
            holder = f"{row.subject_kind}:{row.subject_id}"
            self.stdout.write(f"{row.grant_id:<40}  {state:<8}  {row.application_id:<16}  {holder}")

    def _show(self, options: dict[str, Any], now_ms: int) -> None:
        row = reading.find(options["id"], reader=OPERATOR, tenant_id=options["namespace"])
        if options["json"]:
            self.emit(row.signed().wire())
            return
        grant = row.signed().grant
        dead = services.standing(row.signed(), now_ms=now_ms)
        for label, value in {
            "id": grant.id,
            "state": "it holds" if dead is None else f"dead: {dead.message}",
            "for": f"{grant.subject.kind}:{grant.subject.id}",
            "from": f"{grant.issuer.kind}:{grant.issuer.id}",
            "key": row.key_id or "none",
            "may": " ".join(sorted(grant.capabilities)),
            "on": " ".join(resource.uri for resource in grant.resources),
            "stands on": grant.parent_grant or "the key itself",
            "signed by": row.signed().key_id,
        }.items():
            self.stdout.write(f"{label:<12}{value}")

    def _revoke(self, options: dict[str, Any], now_ms: int) -> None:
        row = services.revoke(
            options["id"], OPERATOR, tenant_id=options["namespace"], now_ms=now_ms, reason=options["reason"]
        )
        if options["json"]:
            self.emit(row.signed().wire())
        else:
            self.stdout.write(f"{row.grant_id} is revoked, and with it everything delegated from it")

    def _keys(self, options: dict[str, Any], now_ms: int) -> None:
        self._print_ring(keyring.shared_ring(now_ms=now_ms), as_json=options["json"])

    def _rotate_key(self, options: dict[str, Any], now_ms: int) -> None:
        self._refuse_in_the_environment()
        with transaction.atomic():
            ring = keyring.shared_file().rotate(now_ms=now_ms)
            record(OPERATOR, "grant_key.rotated", target=ring.current.id, reason=f"replaces {ring.keys[1].id}")
        self._print_ring(ring, as_json=options["json"])

    def _drop_key(self, options: dict[str, Any], now_ms: int) -> None:
        self._refuse_in_the_environment()
        with transaction.atomic():
            ring = keyring.shared_file().drop(options["id"])
            record(OPERATOR, "grant_key.dropped", target=options["id"])
        self._print_ring(ring, as_json=options["json"])

    def _refuse_in_the_environment(self) -> None:
        if settings.GRANT_KEYS:
            self.refuse("the ring comes from FELTDB_GRANT_KEYS; change it there, on every host")

    def _print_ring(self, ring: keyring.Ring, *, as_json: bool) -> None:
        keys = [
            {
                "key_id": key.id,
                "public_key": key.public.hex(),
                "created_at_ms": key.created_at_ms,
                "retired_at_ms": key.retired_at_ms,
            }
            for key in ring.keys
        ]
        if as_json:
            self.emit({"key_id": ring.current.id, "keys": keys})
            return
        for key in ring.keys:
            use = "signs" if key == ring.current else "verifies"
            self.stdout.write(f"{key.id}  {use:<9}{key.public.hex()}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
