"""What our own workers can run: programs registered under a name.

In any installed app's `capabilities.py`:

    from apps.workloads.capabilities import Context, capability

    @capability("send-receipt")
    def send_receipt(input, context: Context):
        order = context.get("orders", input["order_id"])
        ...
        return {"sent": True}

The value returned is the work's output. An exception is a failure of kind `execution_error`, which the default policy
does not try again; raise `Failed(kind, ...)` to say otherwise. A program runs in a thread of the worker beside others:
it must not change process-wide state, and should look at `context.cancelled()` now and then when it runs long; one
registered as `isolated` has a process of its own (`isolation/`).
Not here: who calls it (`worker.py`), the built-in ones (`builtin.py`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from django.utils.module_loading import autodiscover_modules

from feltdb_engine import CommitResult, Mutation, Precondition, Record

__all__ = [
    "Cancelled",
    "Capability",
    "CommitResult",
    "Context",
    "Failed",
    "Mutation",
    "Precondition",
    "Record",
    "autodiscover",
    "capability",
    "find",
    "names",
]

JSON: TypeAlias = Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


class Failed(Exception):
    """A program's own word on its failure: its kind (what `retry_on` lists) and what it may have done.

    `retry_after_ms`: if it is tried again, not before so many milliseconds have passed, whatever the back-off says.
    """

    def __init__(
        self, kind: str, message: str = "", *, effect: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.effect = effect
        self.retry_after_ms = retry_after_ms


class Cancelled(Exception):
    """The program gives up because it was asked to."""


class Context(Protocol):
    """What a program knows of the work it does, and what it may ask."""

    @property
    def workload_id(self) -> str:
        """The work's id."""

    @property
    def namespace(self) -> str:
        """The namespace the work belongs to; store reads see no other."""

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1: the fencing token."""

    @property
    def traceparent(self) -> str | None:
        """The place in a trace (W3C Trace Context) of the request or change that made the work, for calls it makes."""

    @property
    def deadline_at_ms(self) -> int | None:
        """When the attempt will be timed out, in milliseconds since 1970; None for never."""

    def cancelled(self) -> bool:
        """Tell whether to give up: cancelled, timed out, the claim lost, or the worker stopping."""

    def heartbeat(self) -> None:
        """Show life now and raise Cancelled where the work is to be given up. The worker does so by itself too."""

    def checkpoint(self, state: JSON) -> None:
        """Keep `state`, up to 1 MiB, for an attempt that goes on after this one; raises Cancelled as `heartbeat`."""

    def checkpoints(self) -> Sequence[JSON]:
        """Return what this and earlier attempts kept, oldest first: the newest ten."""

    def commit(
        self, step: str, mutations: Sequence[Mutation], *, preconditions: Sequence[Precondition] = ()
    ) -> CommitResult:
        """Write records of the namespace, once however many attempts come here.

        `step` names the write within the work: under it a later attempt with the same content gets the first
        outcome (`duplicate`), and with other content IdempotencyConflict. Raises Cancelled where the claim is no
        longer held, and Failed of kind `transient_connection` where the outcome is unknown: a later attempt learns it.
        """

    def get(self, collection: str, record_id: str) -> Record | None:
        """Read one record of the namespace, as it is now."""

    def page(self, collection: str, *, after: str | None = None, limit: int = 100) -> Sequence[Record]:
        """Read records in the order of their ids, those after `after`."""

    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, JSON] | None = None,
        order_by: Sequence[tuple[str, str]] = (),
        limit: int = 100,
    ) -> Sequence[Record]:
        """Read records that match."""


Program: TypeAlias = Callable[[JSON, Context], JSON]


@dataclass(frozen=True, slots=True)
class Capability:
    """A program and its name. Isolated: each attempt in a process of its own, ended after `time_limit_s` (None: never).

    What an isolated program does to its process costs one attempt: a failure of kind `worker_failure` (it ended its
    process) or `timeout`, both tried again by the default policy. Starting the process takes about a second.
    """

    name: str
    program: Program
    isolated: bool = False
    time_limit_s: float | None = None


_registry: dict[str, Capability] = {}


def capability(name: str, *, isolated: bool = False, time_limit_s: float | None = None) -> Callable[[Program], Program]:
    """Register the decorated program.

    Raises ValueError for a bad name, for one that another program has, and for a time limit on a program that is not
    isolated: a thread cannot be ended.
    """
    if time_limit_s is not None and (not isolated or time_limit_s <= 0):
        raise ValueError("a time limit is a positive number of seconds, of an isolated program")
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is no capability name: letters, digits, '_', '.' and '-', at most 128")

    def register(program: Program) -> Program:
        known = _registry.get(name)
        if known is not None and known.program is not program:
            raise ValueError(f"two programs are registered as {name}")
        _registry[name] = Capability(name, program, isolated, time_limit_s)
        return program

    return register


def find(name: str) -> Capability | None:
    """Return the capability of that name."""
    return _registry.get(name)


def names() -> frozenset[str]:
    """Return the names of everything that can be run here."""
    return frozenset(_registry)


def autodiscover() -> None:
    """Register the built-in programs and import every installed app's `capabilities` module."""
    import apps.workloads.builtin
    import apps.workloads.bulk.program
    import apps.workloads.task_backend
    import apps.workloads.webhooks.program  # noqa: F401 - all register as they are imported

    autodiscover_modules("capabilities")
