"""`manage.py worker`: evaluate triggers, sweep, and run durable work until told to stop."""

import logging
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from apps.keys.grants import pruning
from apps.keys.models import Namespace
from apps.operations.services import compacting, liveness, sampling, versions
from apps.operations.services.supervised import end_with_supervisor
from apps.triggers.evaluator import Evaluator
from apps.workloads import retention
from apps.workloads.printed import MaskedStream
from apps.workloads.worker import Step, Worker, WorkerOptions, stop_on_signals

logger = logging.getLogger("feltdb.worker")

MAX_CONCURRENCY = 64
MAX_GRACE_S = 600.0


class Command(BaseCommand):
    """Thin: puts trigger evaluation and the worker of `apps.workloads` into one process."""

    help = (
        "Run the worker: it evaluates triggers, takes back work whose lease ran out, and runs what is ready, "
        "several at a time. Any number of workers may run. Ctrl-C or SIGTERM: claims no more, lets programs finish "
        "within the grace, hands the rest back."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--concurrency",
            type=_within(1, MAX_CONCURRENCY, int),
            default=settings.WORKER_CONCURRENCY,
            help=f"programs that run at once, 1 to {MAX_CONCURRENCY} (default: WORKER_CONCURRENCY, now %(default)s)",
        )
        parser.add_argument(
            "--once", action="store_true", help="do what is ready now and what follows from it, then end"
        )
        parser.add_argument("--namespaces", default="", help="only these, comma separated (default: all)")
        parser.add_argument(
            "--grace",
            type=_within(0, MAX_GRACE_S, float),
            default=WorkerOptions().grace_s,
            help="seconds that running programs get to finish after SIGTERM (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until stopped, or once."""
        try:
            behind = bool(versions.apart()[0])
        except DatabaseError:
            if options["once"]:
                raise
            behind = False  # a worker waits for a database that is away
        if behind:
            raise CommandError("the database is not made, or of an earlier version: run 'manage.py setup' first")
        named = tuple(name.strip() for name in options["namespaces"].split(",") if name.strip())
        _tell_unknown(named)
        evaluator = Evaluator(namespaces=frozenset(named) if named else None)
        how = WorkerOptions(concurrency=options["concurrency"], namespaces=named or None, grace_s=options["grace"])
        triggers = Step("triggers", evaluator.run_once, pause=evaluator.wait, close=evaluator.close)
        grants = Step("grants", lambda _: pruning.prune_due(), pause_s=retention.LOOK_S)
        upkeep = [liveness.step(how), retention.step(), grants, compacting.step(), sampling.step()]
        worker = Worker(how, steps=[triggers, *upkeep])
        stop_on_signals(worker)
        sys.stdout, sys.stderr = MaskedStream(sys.stdout), MaskedStream(sys.stderr)
        end_with_supervisor()
        if options["once"]:
            attempts = worker.run_once()
            self.stdout.write(f"{attempts} attempt{'' if attempts == 1 else 's'} made; nothing is left to do now.")
        else:
            worker.run()


def _tell_unknown(named: Collection[str]) -> None:
    """Say which namespaces are not there: a worker may come first, but a name may also be mistyped."""
    known = set(Namespace.objects.filter(name__in=named).values_list("name", flat=True))
    for name in sorted(set(named) - known):
        logger.warning("there is no namespace %s yet; its work is run once there is", name)


def _within(low: float, high: float, kind: type[int] | type[float]) -> Any:
    """Return an argparse type for numbers from `low` to `high`."""

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError as error:
            raise ArgumentTypeError(f"'{text}' is no number") from error
        if not low <= value <= high:
            raise ArgumentTypeError(f"must be from {low} to {high}")
        return value

    return number
