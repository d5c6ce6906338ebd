"""`manage.py webhook secret URL`: the secret that a receiver of webhooks verifies signatures with."""

from typing import Any

from django.core.management.base import CommandParser

from apps.http.errors import ApiError
from apps.keys.commands import PlainCommand, add_json_option
from apps.workloads.by_hand import namespace_named
from apps.workloads.webhooks import signing, targets
from apps.workloads.webhooks.targets import TargetRefused


class Command(PlainCommand):
    """Parses, calls, prints."""

    help = "Print the secrets of one receiver of webhooks, newest first; they are derived, none is stored."
    refusals = (ApiError, TargetRefused)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommand."""
        parser.epilog = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
        commands = parser.add_subparsers(dest="subcommand", required=True)
        secret = commands.add_parser("secret", help="print the secrets that the receiver at URL verifies with")
        secret.add_argument("url", help="the receiver's URL; host and port count")
        secret.add_argument("--namespace", default="default", help="the namespace whose work calls it")
        add_json_option(secret)

    def run(self, **options: Any) -> None:
        """Print them."""
        target = targets.read(options["url"])
        found = signing.secrets_for(namespace_named(options["namespace"]), target.origin)
        if options["json"]:
            self.emit({"origin": target.origin, "namespace": options["namespace"], "secrets": found})
            return
        for secret in found:
            self.stdout.write(secret)
