"""`manage.py workload list|show|create|cancel|retry|history|result`: work from the command line, as the operator."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.keys.commands import REFUSED, STORAGE, PlainCommand, add_json_option
from apps.keys.principal import operator
from apps.workloads import limits, services
from apps.workloads.api import inputs, shapes
from apps.workloads.by_hand import Action, act, namespace_named
from apps.workloads.clock import now_ms
from apps.workloads.models import Workload
from apps.workloads.services import placement, reading
from apps.workloads.services.moving import load
from apps.workloads.states import RESTING

OPERATOR = operator("command-line")


class Command(PlainCommand):
    """Parses, calls the service, prints."""

    help = "List, show, create, cancel and retry durable work; read its history and its result."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        parser.epilog = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
        commands = parser.add_subparsers(dest="subcommand", required=True)
        listed = self._add(commands, "list", "list work, newest first")
        listed.add_argument("--state", choices=[str(state) for state in RESTING], help="only work in this state")
        for name in ("definition_id", "trigger", "application_id"):
            listed.add_argument(f"--{name.replace('_', '-')}", help=f"only work with exactly this {name}")
        listed.add_argument("--limit", type=int, default=limits.DEFAULT_PAGE, help="rows at most (default %(default)s)")
        create = self._add(commands, "create", "create work from a JSON file, the body of POST /v1/workloads")
        create.add_argument("--input", required=True, metavar="work.json", help="the file; - for standard input")
        for name, text in (
            ("show", "show one workload"),
            ("history", "show what happened to one workload"),
            ("result", "show the result of one workload"),
        ):
            self._add(commands, name, text).add_argument("workload_id", help="the work's id")
        for name, text in (
            ("cancel", "cancel work, or ask its worker to give it up"),
            ("retry", "arm a dead letter again, with a fresh budget of attempts"),
        ):
            one = self._add(commands, name, text)
            one.add_argument("workload_id", help="the work's id")
            one.add_argument("--reason", default="", help="why, for the history and the audit")

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

    def _list(self, namespace: str, options: dict[str, Any]) -> None:
        filters = {name: options[name] for name in reading.FILTERS if options.get(name)}
        limit = min(max(options["limit"], 1), limits.MAX_PAGE)
        rows, more = reading.page(namespace, filters=filters, limit=limit)
        if options["json"]:
            self.emit({"workloads": [shapes.summary(row) for row in rows], "more": more is not None})
            return
        for row in rows:
            self.stdout.write(_line(row))
        if more is not None:
            self.stdout.write("there is more; narrow it or raise --limit")
        if not rows:
            self.stdout.write(f"no such work in {namespace}")

    def _show(self, namespace: str, options: dict[str, Any]) -> None:
        self._print(namespace, options["workload_id"], options)

    def _create(self, namespace: str, options: dict[str, Any]) -> None:
        raw = sys.stdin.buffer.read() if options["input"] == "-" else Path(options["input"]).read_bytes()
        command = inputs.create(strict_json.loads(raw), namespace=namespace, principal=OPERATOR)
        admission = services.admit(command, now_ms=now_ms(), by=OPERATOR)
        if not admission.created:
            self.stderr.write("the same request made this work before")
        self._print(namespace, admission.workload.workload_id, options)

    def _cancel(self, namespace: str, options: dict[str, Any]) -> None:
        self._act("cancel", namespace, options)

    def _retry(self, namespace: str, options: dict[str, Any]) -> None:
        self._act("retry", namespace, options)

    def _act(self, action: Action, namespace: str, options: dict[str, Any]) -> None:
        work = load(namespace, options["workload_id"])
        act(action, work, by=OPERATOR, now_ms=now_ms(), reason=options["reason"])
        self._print(namespace, work.workload_id, options)

    def _history(self, namespace: str, options: dict[str, Any]) -> None:
        found = reading.history(namespace, options["workload_id"])
        if options["json"]:
            self.emit(shapes.history(found))
            return
        for event in found.events:
            evidence = " ".join(f"{name}={value}" for name, value in event.evidence.items())
            line = f"{event.sequence:>4} {event.at_ms} {event.from_state} -> {event.to_state} by {event.actor}"
            self.stdout.write(f"{line}  {evidence}".rstrip())

    def _result(self, namespace: str, options: dict[str, Any]) -> None:
        row, found = reading.result(namespace, options["workload_id"])
        shown = None if found is None else shapes.result(row.workload_id, found)
        if options["json"]:
            self.emit({"workload_id": row.workload_id, "state": row.state, "result": shown})
        elif shown is None:
            self.stdout.write(f"none: the work is {row.state}")
        else:
            self.stdout.write(strict_json.dumps(shown["output"]).decode())

    def _print(self, namespace: str, workload_id: str, options: dict[str, Any]) -> None:
        details = reading.get(namespace, workload_id)
        if options["json"]:
            self.emit(shapes.workload(details))
            return
        row = details.workload
        self.stdout.write(_line(row))
        if row.worker_id:
            self.stdout.write(f"  held by {row.worker_id} until {row.lease_expires_at_ms}")
        if placement.nobody_known(row):
            self.stdout.write(f"  no worker can run this: none known here runs {row.definition_id}")
        for attempt in details.attempts:
            ended = f"{attempt.failure_kind} {attempt.error}".strip()
            self.stdout.write(f"  attempt {attempt.number} by {attempt.worker_id}: {attempt.status} {ended}".rstrip())


def _line(row: Workload) -> str:
    failure = f"  {row.last_failure.splitlines()[0]}" if row.last_failure else ""
    return f"{row.workload_id}  {row.state:<22} {row.definition_id}  {row.request.idempotency_key}{failure}"
