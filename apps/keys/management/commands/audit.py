"""`manage.py audit`: the audit trail from the command line. Thin: the rules are in `apps.keys.audit`."""

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from apps.http.pages import exporting
from apps.keys.audit import reading, retention
from apps.keys.audit.services import record
from apps.keys.commands import PlainCommand, add_json_option
from apps.keys.principal import operator

OPERATOR = operator("command-line")

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Command(PlainCommand):
    """Export and prune the audit trail."""

    help = "Export the audit trail, or remove what is older than it is to be kept."
    refusals = (retention.RetentionRefused,)

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="export | prune")
        export = commands.add_parser("export", help="write events as NDJSON, oldest first, one a line")
        export.add_argument("--namespace", help="only this namespace")
        export.add_argument("--action", help="only this action, such as key.revoked")
        export.add_argument("--newer-than", type=_age_s, metavar="30d", help="only events of the last s, m, h or d")
        export.add_argument("--output", type=Path, metavar="PATH", help="a new file (mode 0600), not the screen")
        prune = commands.add_parser("prune", help="remove old events; at least one day is always kept")
        prune.add_argument(
            "--older-than",
            type=_age_s,
            metavar="400d",
            help=f"remove what is older (default: {settings.AUDIT_RETENTION_DAYS}d, FELTDB_AUDIT_RETENTION_DAYS)",
        )
        add_json_option(prune)

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        getattr(self, "_" + options["subcommand"])(options)

    def _export(self, options: dict[str, Any]) -> None:
        now_ms = _now_ms()
        newer_s = options["newer_than"]
        filters = reading.Filters(
            namespace=options["namespace"],
            action=options["action"],
            from_ms=None if newer_s is None else now_ms - newer_s * 1000,
        )
        path: Path | None = options["output"]
        written = 0
        with self._destination(path) as write:
            for lines in exporting.lines(reading.batches(OPERATOR, filters)):
                write(lines)
                written += lines.count(b"\n")
        record(OPERATOR, "audit.exported", target=str(path or "standard output"), namespace=options["namespace"] or "")
        self.stderr.write(f"{written} events")

    def _prune(self, options: dict[str, Any]) -> None:
        older_than_s = options["older_than"] or settings.AUDIT_RETENTION_DAYS * _UNITS_S["d"]
        removed = retention.prune(older_than_s=older_than_s, by=OPERATOR, now_ms=_now_ms())
        if options["json"]:
            self.emit({"removed": removed})
        else:
            self.stdout.write(f"{removed} events removed")

    @contextmanager
    def _destination(self, path: Path | None) -> Iterator[Callable[[bytes], object]]:
        """Give what writes the lines: to the screen, or to a new file that is forced when all is written."""
        if path is None:
            yield lambda lines: self.stdout.write(lines.decode("ascii"), ending="")
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            self.refuse(f"{path} is there already; an export never overwrites a file")
        with os.fdopen(descriptor, "wb") as handle:
            yield handle.write
            handle.flush()
            os.fsync(handle.fileno())


def _age_s(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError("write a whole number and s, m, h or d, for example 90d")
    return int(match.group(1)) * _UNITS_S[match.group(2)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
