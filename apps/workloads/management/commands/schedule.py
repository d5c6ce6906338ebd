"""`manage.py schedule define|list|show|pause|resume|delete`: schedules from the command line, as the operator."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.keys.commands import REFUSED, STORAGE, PlainCommand, add_json_option
from apps.keys.principal import operator
from apps.workloads import limits
from apps.workloads.api import inputs
from apps.workloads.api.schedules import definition, shown
from apps.workloads.by_hand import namespace_named
from apps.workloads.clock import now_ms
from apps.workloads.models import Schedule
from apps.workloads.services import scheduling

OPERATOR = operator("command-line")


class Command(PlainCommand):
    """Parses, calls the service, prints."""

    help = "Define, list and operate schedules: work at the due times of a cron expression."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        parser.epilog = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
        commands = parser.add_subparsers(dest="subcommand", required=True)
        define = self._add(commands, "define", "define a schedule, new or again, from a JSON file")
        define.add_argument("--input", required=True, metavar="schedule.json", help="the file; - for standard input")
        self._add(commands, "list", "list the schedules of a namespace")
        for name, text in (
            ("show", "show one schedule and its next due times"),
            ("pause", "let due times pass"),
            ("resume", "go on from now"),
            ("delete", "forget a schedule; the work it made stays"),
        ):
            one = self._add(commands, name, text)
            one.add_argument("schedule_id", help="the schedule's id")
            if name != "show":
                one.add_argument("--reason", default="", help="why, for the audit")

    def _add(self, commands: Any, name: str, text: str) -> CommandParser:
        parser: CommandParser = commands.add_parser(name, help=text)
        parser.add_argument("--namespace", default="default", help="the namespace (default: %(default)s)")
        add_json_option(parser)
        return parser

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        try:
            getattr(self, "_" + options["subcommand"])(namespace_named(options["namespace"]), options)
        except ApiError as error:
            self.end(STORAGE if error.status >= 500 else REFUSED, f"{error.code}: {error.message}")

    def _define(self, namespace: str, options: dict[str, Any]) -> None:
        raw = sys.stdin.buffer.read() if options["input"] == "-" else Path(options["input"]).read_bytes()
        asked = definition(strict_json.loads(raw), namespace)
        subject = inputs.subject_of(OPERATOR)
        done = scheduling.define(asked, by=OPERATOR, requested_by=subject, now_ms=now_ms())
        self._print(done.schedule, options)

    def _list(self, namespace: str, options: dict[str, Any]) -> None:
        rows, more = scheduling.page(namespace, limit=limits.MAX_PAGE)
        if options["json"]:
            now = now_ms()
            self.emit({"schedules": [shown(row, now) for row in rows], "more": more is not None})
            return
        for row in rows:
            self.stdout.write(_line(row))
        if not rows:
            self.stdout.write(f"no schedules in {namespace}; see manage.py schedule define --help")

    def _show(self, namespace: str, options: dict[str, Any]) -> None:
        self._print(scheduling.find(namespace, options["schedule_id"]), options)

    def _pause(self, namespace: str, options: dict[str, Any]) -> None:
        row = scheduling.pause(
            namespace, options["schedule_id"], by=OPERATOR, now_ms=now_ms(), reason=options["reason"]
        )
        self._print(row, options)

    def _resume(self, namespace: str, options: dict[str, Any]) -> None:
        row = scheduling.resume(
            namespace, options["schedule_id"], by=OPERATOR, now_ms=now_ms(), reason=options["reason"]
        )
        self._print(row, options)

    def _delete(self, namespace: str, options: dict[str, Any]) -> None:
        scheduling.delete(namespace, options["schedule_id"], by=OPERATOR, now_ms=now_ms(), reason=options["reason"])
        if options["json"]:
            self.emit({"schedule_id": options["schedule_id"], "deleted": True})

    def _print(self, row: Schedule, options: dict[str, Any]) -> None:
        if options["json"]:
            self.emit(shown(row, now_ms()))
        else:
            self.stdout.write(_line(row))


def _line(row: Schedule) -> str:
    due = "stands still" if row.next_at_ms is None else f"next at {row.next_at_ms}"
    failure = f"  {row.failure}" if row.failure else ""
    return f"{row.schedule_id:<32} {row.state:<8} {row.expression} {row.time_zone}  {row.definition_id}  {due}{failure}"
