"""`manage.py doctor`: look at everything and say what is wrong and what to do; bring back in step what was rolled back
apart.
"""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from apps.http.errors import ApiError
from apps.keys.commands import REFUSED
from apps.keys.principal import operator
from apps.operations.services.doctor import examine
from apps.triggers import services as triggers
from apps.workloads.clock import now_ms

FINDINGS = 4
"""The exit code where something was found."""


class Command(BaseCommand):
    """Thin: the work is in `apps.operations.services.doctor`."""

    help = (
        "Look at settings, data directory, disk, database, stores, workers, triggers and dead letters, and say "
        "what is wrong and what to do. Safe while the instance runs. Exit code 0: nothing found; 4: something found."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
        parser.add_argument("--verify", action="store_true", help="also read the whole log of every store")
        parser.add_argument(
            "--reconcile",
            action="store_true",
            help="bring triggers back in step where store and database were rolled back apart, and let them go on",
        )
        parser.add_argument("--namespace", help="reconcile this one only (default: each that stands still)")
        parser.add_argument(
            "--unseen",
            choices=[each.value for each in triggers.Unseen],
            help="evaluate or pass over the changes of which nobody can know whether their work was done",
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what is apart and what would be done")
        parser.add_argument("--reason", default="", help="why, for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the diagnosis; end with 4 where there are findings."""
        if options["reconcile"]:
            self._reconcile(options)
            return
        seen = examine(verify=options["verify"])
        if options["json"]:
            findings = [asdict(each) for each in seen.findings]
            self.stdout.write(
                json.dumps({"ok": not findings, "checks": seen.checks, "findings": findings, "facts": seen.facts})
            )
        else:
            for check in seen.checks:
                self.stdout.write(f"looked at {check}")
            for fact in seen.facts:
                self.stdout.write(f"  {fact}")
            for each in seen.findings:
                weight = "NOT READY" if each.blocking else "attention"
                self.stdout.write(f"\n{weight}  {each.code}  {each.subject}\n  {each.message}\n  Do: {each.next_step}")
            what = f"{len(seen.findings)} found; docs/runbook.md has more on each" if seen.findings else "nothing found"
            self.stdout.write(f"\n{what}")
        if seen.findings:
            raise SystemExit(FINDINGS)

    def _reconcile(self, options: dict[str, Any]) -> None:
        """Reconcile each namespace that stands still, or the one named; end with 1 where one was refused."""
        told, refused = [], False
        for namespace in [options["namespace"]] if options["namespace"] else triggers.namespaces_apart():
            try:
                apart = self._look_or_reconcile(namespace, options)
                told.append({**asdict(apart), "unseen": apart.unseen, "done": not options["dry_run"]})
            except ApiError as error:
                refused = True
                told.append({"namespace": namespace, "code": error.code, "message": error.message, "done": False})
        if options["json"]:
            self.stdout.write(json.dumps({"ok": not refused, "namespaces": told}))
        else:
            for each in told:
                self.stdout.write(_line(each))
            if not told:
                self.stdout.write("no namespace stands still")
        if refused:
            raise SystemExit(REFUSED)

    def _look_or_reconcile(self, namespace: str, options: dict[str, Any]) -> triggers.Apart:
        if options["dry_run"]:
            return triggers.look(namespace, now_ms=now_ms())
        unseen = triggers.Unseen(options["unseen"]) if options["unseen"] else None
        return triggers.reconcile(
            namespace, by=operator("command-line"), now_ms=now_ms(), unseen=unseen, reason=options["reason"]
        )


def _line(each: dict[str, Any]) -> str:
    if "code" in each:
        return f"{each['namespace']}: {each['code']}: {each['message']}"
    done = "reconciled" if each["done"] else "would be reconciled"
    return (
        f"{each['namespace']}: {each['kind']}: {each['message']}. Both know change {each['common']}, "
        f"the store's last is {each['head']}; {done}"
    )
