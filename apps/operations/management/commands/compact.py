"""`manage.py compact`: let go of history that the policy and the triggers let go. Thin: the work is a service."""

import sys
import time
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from apps.http.errors import ApiError
from apps.keys.commands import REFUSED, PlainCommand, add_json_option
from apps.keys.models import Namespace
from apps.keys.principal import operator
from apps.operations.services import compacting
from feltdb_engine.compaction import Compaction
from feltdb_engine.errors import EngineError

OPERATOR = operator("command-line")
SAY_EVERY_S = 2.0
HOLDERS = "triggers that have yet to see it, or FELTDB_HISTORY_OPERATIONS"


class Command(PlainCommand):
    """Compact one store or all."""

    help = (
        "Let go of history that is older than FELTDB_HISTORY_DAYS or beyond FELTDB_HISTORY_MIB, write a snapshot and "
        "give the space back, while the instance serves. What a pin or a trigger still needs stays. The worker does "
        "this by itself every FELTDB_COMPACT_EVERY_MINUTES. Exit codes: 0 done, 1 a store was refused, 3 database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--namespace", help="only this one (default: all)")
        parser.add_argument("--dry-run", action="store_true", help="only say what would go and what holds the rest")
        parser.add_argument(
            "--all-history", action="store_true", help="let all history go that no pin and no trigger needs"
        )
        add_json_option(parser)

    def run(self, **options: Any) -> None:
        """Compact each, say how it went; end with 1 where one was refused."""
        keep = compacting.forgetting_all(compacting.policy()) if options["all_history"] else None
        known = list(Namespace.objects.order_by("name").values_list("name", flat=True))
        if options["namespace"] and options["namespace"] not in known:
            self.refuse(f"there is no namespace {options['namespace']}; there are: {', '.join(known) or 'none'}")
        told: list[dict[str, Any]] = []
        for namespace in [options["namespace"]] if options["namespace"] else known:
            try:
                if options["dry_run"]:
                    done = compacting.preview(namespace, keep=keep)
                else:
                    done = compacting.compact(namespace, by=OPERATOR, keep=keep, progress=self._progress(namespace))
                told.append({"namespace": namespace, **asdict(done)})
            except (compacting.CompactionRefused, ApiError, EngineError) as error:
                message = getattr(error, "message", str(error))
                told.append({"namespace": namespace, "refused": message})
                self.stderr.write(f"error: {namespace}: {message}")
            else:
                if not options["json"]:
                    self.stdout.write(_line(namespace, done))
        if options["json"]:
            self.emit({"namespaces": told})
        elif not told:
            self.stdout.write("there is no namespace yet")
        if any("refused" in each for each in told):
            sys.exit(REFUSED)

    def _progress(self, namespace: str) -> compacting.Progress:
        said_at = time.monotonic()

        def say(done: int, total: int) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= SAY_EVERY_S:
                said_at = time.monotonic()
                self.stderr.write(f"{namespace}: snapshot {done / 1024**2:,.0f} of {total / 1024**2:,.0f} MiB")

        return say


def _line(namespace: str, done: Compaction) -> str:
    would = "would let go" if done.dry_run else "let go"
    text = f"{namespace}: {would} of {done.floor - done.floor_before:,} operations"
    if not done.dry_run:
        text += f", {done.bytes_removed / 1024**2:,.1f} MiB given back"
    text += f"; history goes from {done.floor:,} to {done.head:,}"
    if done.held_by:
        text += f"; more is held by {done.held_by.replace('retain_from', HOLDERS)}"
    if done.files_held:
        text += "; a backup still reads files that are to go, the next compaction removes them"
    return text
