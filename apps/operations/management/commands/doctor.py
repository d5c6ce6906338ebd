"""`manage.py doctor`: look at everything and say what is wrong and what to do."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from apps.operations.services.doctor import examine

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

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the diagnosis; end with 4 where there are findings."""
        seen = examine(verify=options["verify"])
        if options["json"]:
            findings = [asdict(each) for each in seen.findings]
            self.stdout.write(json.dumps({"ok": not findings, "checks": seen.checks, "findings": findings}))
        else:
            for check in seen.checks:
                self.stdout.write(f"looked at {check}")
            for each in seen.findings:
                weight = "NOT READY" if each.blocking else "attention"
                self.stdout.write(f"\n{weight}  {each.code}  {each.subject}\n  {each.message}\n  Do: {each.next_step}")
            what = f"{len(seen.findings)} found; docs/runbook.md has more on each" if seen.findings else "nothing found"
            self.stdout.write(f"\n{what}")
        if seen.findings:
            raise SystemExit(FINDINGS)
