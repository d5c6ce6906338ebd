"""`manage.py secrets`: the instance's secrets, sealed apart from its backups. Thin: the rules are in `apps.keys`."""

import getpass
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandParser

from apps.keys import lost, sealing, secret_files
from apps.keys.audit.services import record
from apps.keys.clock import now_ms, utc_now
from apps.keys.command_line import NewSecretFile, SecretFileRefused
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.limits import MAX_SEALED_BYTES
from apps.keys.principal import operator

OPERATOR = operator("command-line")


class Command(PlainCommand):
    """Seal, open, check."""

    help = "Seal the instance's secrets under a passphrase, open them again, and name those that are missing."
    refusals = (sealing.SealRefused, SecretFileRefused, ImproperlyConfigured)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="export|import|check")
        export = commands.add_parser(
            "export", help="seal all secrets into a new file; keep it, and the passphrase, apart from the backups"
        )
        taken = commands.add_parser("import", help="bring sealed secrets back, while nothing of the instance runs")
        taken.add_argument("--replace", action="store_true", help="set secrets aside that are here and are others")
        for command in (export, taken):
            command.add_argument("file", type=Path)
            command.add_argument(
                "--passphrase-file", type=Path, metavar="PATH", help="read the passphrase here instead of asking for it"
            )
        check = commands.add_parser("check", help="name the secrets that the database needs and the instance lacks")
        for command in (export, taken, check):
            add_json_option(command)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"])(options)

    def _export(self, options: dict[str, Any]) -> None:
        passphrase = _passphrase(options["passphrase_file"], twice=True)
        sealed, names = sealing.seal(_folder(), passphrase, now_ms=now_ms())
        file = NewSecretFile(options["file"])
        file.write(sealed.decode("ascii").rstrip("\n"))
        record(OPERATOR, "secrets.exported", target=f"{len(names)} secrets")
        if options["json"]:
            self.emit({"file": str(options["file"]), "secrets": list(names)})
            return
        self.stdout.write(f"sealed into {options['file']}: {', '.join(names)}")
        self.stdout.write("Secrets that the environment holds are not in it.")

    def _import(self, options: dict[str, Any]) -> None:
        with options["file"].open("rb") as handle:
            sealed = handle.read(MAX_SEALED_BYTES + 1)
        files = sealing.opened(sealed, _passphrase(options["passphrase_file"], twice=False))
        done = sealing.restore(files, _folder(), replace=options["replace"], now_ms=now_ms())
        if options["json"]:
            self.emit({name: list(getattr(done, name)) for name in ("written", "same", "other")})
        else:
            for said, names in (("written", done.written), ("here already", done.same), ("left alone", done.other)):
                if names:
                    self.stdout.write(f"{said:<14}{', '.join(names)}")
        if done.other:
            self.refuse("others of these names are here; stop the instance and use --replace to set them aside")

    def _check(self, options: dict[str, Any]) -> None:
        missing = lost.lost_secrets(now=utc_now())
        if options["json"]:
            self.emit({"missing": [{"name": each.name, "consequence": each.consequence} for each in missing]})
        for each in missing if not options["json"] else ():
            self.stdout.write(f"{each.name}; {each.consequence}")
        if missing:
            self.refuse("bring them back with: manage.py secrets import FILE")
        if not options["json"]:
            self.stdout.write("every secret that the database needs is here")


def _folder() -> Path:
    return secret_files.folder(Path(settings.DATA_DIR))


def _passphrase(path: Path | None, *, twice: bool) -> str:
    if path is not None:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    given = getpass.getpass("passphrase: ")
    if twice and getpass.getpass("again: ") != given:
        raise sealing.SealRefused("the two are not the same")
    return given
