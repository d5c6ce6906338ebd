"""`manage.py trigger define|list|status|evaluate|dry-run|explain|enable|...`: triggers from the command line.

Safe while the server runs: every subcommand is one service call, and what it changes every process sees at once.
"""

import sys
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import CommandParser

from apps.http import canonical_json, strict_json
from apps.http.errors import ApiError
from apps.keys.commands import REFUSED, STORAGE, PlainCommand, add_json_option
from apps.keys.principal import operator
from apps.triggers import services
from apps.triggers.definition import BEGINNING, NOW
from apps.triggers.errors import TriggerInvalid
from apps.triggers.limits import DRY_RUN_SAMPLES
from apps.triggers.models import Trigger
from apps.triggers.services.trying import RECENT
from apps.workloads.by_hand import namespace_named
from apps.workloads.clock import now_ms

OPERATOR = operator("command-line")
DEFAULT_NAMESPACE = "default"


class Command(PlainCommand):
    """Parses, calls the service, prints. It acts as the operator."""

    help = "Define, list and operate state triggers."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        parser.epilog = "exit codes: 0 done, 1 refused, 2 usage, 3 storage"
        commands = parser.add_subparsers(dest="subcommand", required=True)
        define = self._add(commands, "define", "define a trigger, new or again, from a JSON file")
        define.add_argument("--input", required=True, metavar="trigger.json", help="the file; - for standard input")
        self._add(commands, "list", "list the triggers of a namespace")
        self._add(commands, "status", "show where the triggers stand, how far behind, and what is held up")
        self._add(commands, "evaluate", "evaluate all there is to evaluate now, and print the work it made")
        dry = self._one(commands, "dry-run", "say what a definition would have fired for, over the real feed")
        dry.add_argument(
            "--input", metavar="trigger.json", help="the definition to try, or the members to change; - too"
        )
        dry.add_argument("--from", dest="start_from", default=RECENT, metavar=f"{RECENT}|{BEGINNING}|CURSOR")
        dry.add_argument("--samples", type=int, default=DRY_RUN_SAMPLES, help="changes shown of each kind")
        explain = self._one(commands, "explain", "say why a trigger did or did not fire for one change")
        explain.add_argument("change", help="its source_change_id, or its sequence")
        place = f"{NOW}|{BEGINNING}|CURSOR"
        for name, text in (
            ("enable", "evaluate a disabled or blocked trigger again"),
            ("disable", "let changes pass"),
            ("pause", "hold a trigger where it stands; resume catches up"),
            ("resume", "let a paused or blocked trigger go on"),
            ("rebase", "put a trigger's cursor elsewhere; a blocked one goes on from there"),
            ("replay", "evaluate old changes once more, each making work once more, and wait for it"),
            ("retry", "make the work of a quarantined change"),
            ("skip", "pass one change over"),
            ("delete", "archive a trigger: its id stays and can be revived"),
        ):
            one = self._one(commands, name, text)
            one.add_argument("--reason", default="", help="why, for the trigger's account")
            if name == "enable":
                one.add_argument("--from", dest="start_from", metavar=place, help="where to start")
            if name == "pause":
                one.add_argument("--until-ms", type=int, help="resume by itself at this instant (ms since 1970)")
            if name == "rebase":
                one.add_argument("--to", required=True, metavar=place, help="where it shall stand")
            if name == "replay":
                one.add_argument("--from", dest="start_from", required=True, metavar=place, help="the changes after it")
                one.add_argument("--to", default=NOW, metavar=place, help="the changes up to it")
            if name in ("retry", "skip"):
                one.add_argument("change", help="its source_change_id, or its sequence")

    def _add(self, commands: Any, name: str, text: str) -> CommandParser:
        parser: CommandParser = commands.add_parser(name, help=text)
        parser.add_argument("--namespace", default=None, help="the namespace (default: default)")
        add_json_option(parser)
        return parser

    def _one(self, commands: Any, name: str, text: str) -> CommandParser:
        parser = self._add(commands, name, text)
        parser.add_argument("trigger_id", help="the trigger's id")
        return parser

    def run(self, **options: Any) -> None:
        """Dispatch to the subcommand."""
        name = options["subcommand"]
        action = getattr(self, "_" + name.replace("-", "_"), None)
        try:
            if action is None:
                self._operate(name, options)
            else:
                action(options)
        except ApiError as error:
            self._end_with(error)

    def _end_with(self, error: ApiError) -> NoReturn:
        self.end(STORAGE if error.status >= 500 else REFUSED, f"{error.code}: {error.message}")

    def _define(self, options: dict[str, Any]) -> None:
        document = _read(options["input"])
        namespace = options["namespace"]
        if namespace is None and isinstance(document, dict) and isinstance(document.get("tenant_id"), str):
            namespace = document["tenant_id"]
        namespace = namespace_named(namespace or DEFAULT_NAMESPACE)
        defined = services.define(namespace, document, by=OPERATOR, now_ms=now_ms())
        what = "defined" if defined.created else "changed" if defined.changed else "unchanged"
        self._show_one(services.find(namespace, defined.trigger.trigger_id), options, what)

    def _list(self, options: dict[str, Any]) -> None:
        triggers = services.list_triggers(_namespace(options))
        if options["json"]:
            self.emit({"triggers": [services.document(trigger) for trigger in triggers]})
            return
        for trigger in triggers:
            self.stdout.write(_line(trigger))
        if not triggers:
            self.stdout.write(f"no triggers in {_namespace(options)}; see manage.py trigger define --help")

    def _status(self, options: dict[str, Any]) -> None:
        found = services.status(_namespace(options), now_ms=now_ms())
        if options["json"]:
            self.emit(found)
            return
        states = ", ".join(f"{count} {state}" for state, count in found["states"].items() if count)
        self.stdout.write(f"{found['triggers']} triggers in {found['namespace']}" + (f": {states}" if states else ""))
        for trigger_id, lag in found["lag_operations"].items():
            age = found["lag_ms"][trigger_id]
            behind = f"{lag} changes behind" + (f", the oldest {age / 1000:.1f} s old" if lag and age else "")
            self.stdout.write(f"  {trigger_id:<32} " + ("lets changes pass" if lag is None else behind))
        for held in found["held_up"]:
            self.stdout.write(f"  {held['trigger_id']} is {held['state']}: {held['code']}: {held['message']}")
        if found["quarantined"]:
            self.stdout.write(f"  {found['quarantined']} changes are quarantined: they could not become work")
        if found["mismatch"]:
            self.stdout.write(f"  all stand still: {found['mismatch']['code']}: {found['mismatch']['message']}")

    def _evaluate(self, options: dict[str, Any]) -> None:
        results = services.evaluate_namespace(_namespace(options), now_ms=now_ms())
        rows = [services.result_document(row) for row in results]
        if options["json"]:
            self.emit({"results": rows})
            return
        for row in rows:
            known = "  (was there already)" if row["duplicate"] else ""
            self.stdout.write(f"{row['trigger_id']}  {row['source_change_id']}  {row['workload_id']}{known}")
        self.stdout.write(f"{len(rows)} changes matched")

    def _dry_run(self, options: dict[str, Any]) -> None:
        members = _read(options["input"]) if options["input"] else {}
        if not isinstance(members, dict):
            raise TriggerInvalid("a trigger is an object", field="")
        ran = services.dry_run(
            _namespace(options),
            options["trigger_id"],
            members,
            by=OPERATOR,
            start_from=options["start_from"],
            samples=options["samples"],
        )
        if options["json"]:
            self.emit(ran)
            return
        self.stdout.write(f"{ran['matched']} of {ran['changes']} changes match ({ran['operations']} of the feed)")
        for name, found in (("", ran), ("cannot become work: ", ran["refused"])):
            for each in found["samples"]:
                self.stdout.write(f"  {name}{each['source_change_id']}  {each['change_kind']}  {each['record_key']}")
        if ran["against"] is not None:
            beside = ran["against"]
            self.stdout.write(
                f"as it is defined now {beside['matched']} match: {beside['only_new']['matched']} would come, "
                f"{beside['only_old']['matched']} would go"
            )
        if ran["next_from"]:
            self.stdout.write(f"there is more: --from {ran['next_from']}")

    def _explain(self, options: dict[str, Any]) -> None:
        told = services.explain(_namespace(options), options["trigger_id"], options["change"])
        if options["json"]:
            self.emit(told)
            return
        change, outcome = told["change"], told["outcome"]
        self.stdout.write(f"{change['change_kind']} of {change['record_key']}: {told['reason']}")
        for check in told["checks"]:
            mark = "yes" if check["passes"] else "no "
            self.stdout.write(f"  {mark} {check['check']}: wants {check['wanted']}, is {check['found']}")
        if told["predicate"] is not None:
            self.stdout.write("  predicate: " + canonical_json.dumps(told["predicate"]).decode())
        self.stdout.write(f"{outcome['kind']}: {outcome['because']}")

    def _replay(self, options: dict[str, Any]) -> None:
        namespace, trigger_id = _namespace(options), options["trigger_id"]
        row = services.replay(
            namespace,
            trigger_id,
            start_from=options["start_from"],
            end_at=options["to"],
            by=OPERATOR,
            now_ms=now_ms(),
            reason=options["reason"],
        )
        services.evaluate_namespace(namespace, now_ms=now_ms())
        done = services.replay_document(services.find_replay(namespace, trigger_id, row.number))
        if options["json"]:
            self.emit(done)
        else:
            self.stdout.write(f"replay {row.number} of {trigger_id}: {done['outcome'] or 'open'}, {done['made']} made")

    def _retry(self, options: dict[str, Any]) -> None:
        made = services.result_document(services.retry(_namespace(options), *_change(options), **_why(options)))
        if options["json"]:
            self.emit(made)
        else:
            self.stdout.write(f"{made['source_change_id']} made {made['workload_id']}")

    def _skip(self, options: dict[str, Any]) -> None:
        change = services.skip(_namespace(options), *_change(options), **_why(options))
        if options["json"]:
            self.emit({"source_change_id": change})
        else:
            self.stdout.write(f"{change} is passed over")

    def _operate(self, name: str, options: dict[str, Any]) -> None:
        namespace, trigger_id = _namespace(options), options["trigger_id"]
        common = _why(options)
        if name == "enable":
            services.enable(namespace, trigger_id, start_from=options["start_from"], **common)
        elif name == "disable":
            services.disable(namespace, trigger_id, **common)
        elif name == "pause":
            services.pause(namespace, trigger_id, resumes_at_ms=options["until_ms"], **common)
        elif name == "resume":
            services.resume(namespace, trigger_id, **common)
        elif name == "rebase":
            services.rebase(namespace, trigger_id, to=options["to"], **common)
        else:
            services.archive(namespace, trigger_id, **common)
            if options["json"]:
                self.emit({"trigger_id": trigger_id, "state": "archived"})
            else:
                self.stdout.write(f"{trigger_id} is archived; defining the id again revives it")
            return
        self._show_one(services.find(namespace, trigger_id), options, "now")

    def _show_one(self, trigger: Trigger, options: dict[str, Any], what: str) -> None:
        if options["json"]:
            self.emit(services.document(trigger))
        else:
            self.stdout.write(f"{what}: {_line(trigger)}")


def _read(name: str) -> Any:
    return strict_json.loads(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())


def _why(options: dict[str, Any]) -> dict[str, Any]:
    return {"by": OPERATOR, "now_ms": now_ms(), "reason": options["reason"]}


def _change(options: dict[str, Any]) -> tuple[str, str]:
    return options["trigger_id"], options["change"]


def _namespace(options: dict[str, Any]) -> str:
    return namespace_named(options["namespace"] or DEFAULT_NAMESPACE)


def _line(trigger: Trigger) -> str:
    kinds = ", ".join(trigger.change_kinds)
    state = trigger.state if not trigger.reason_code else f"{trigger.state} ({trigger.reason_code})"
    return f"{trigger.trigger_id}  {state}  {kinds} of {trigger.source_collection} -> {trigger.target_capability}"
