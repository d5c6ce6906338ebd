"""Worker processes: each leaves a heartbeat, and one that dies or is stopped is noticed, at once on its own host.

The heartbeat is a step of the worker's loop in a thread of its own, so it tells that the process lives and reaches the
database, not that any program in it gets on: leases tell that.
"""

import os
import socket
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from apps.operations.models import WorkerProcess
from apps.workloads.clock import now_ms
from apps.workloads.worker_options import Step, WorkerOptions

BEAT_S = 5.0
SILENT_MS = 20_000
"""Four beats missed."""

FORGET_MS = 24 * 3_600_000
"""A silent process of another host is forgotten after a day."""

MAX_LISTED = 1_000

_STOPPED = frozenset("Tt")
"""By a signal, or by a debugger: it does nothing until it is continued."""


class Life(StrEnum):
    """What can be told of a worker process."""

    ALIVE = "alive"
    STOPPED = "stopped"
    SILENT = "silent"
    DEAD = "dead"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStanding:
    """A worker process and whether it lives."""

    process: WorkerProcess
    life: Life
    silent_ms: int


def step(options: WorkerOptions) -> Step:
    """Return the background step that keeps a worker's heartbeat, and takes it back when the worker ends."""
    process = _this_process(options)

    def beat(_: threading.Event) -> bool:
        _beat(process)
        return False

    return Step("liveness", beat, pause_s=BEAT_S, close=lambda: leave(options.worker_id))


def leave(worker_id: str) -> None:
    """Forget a worker that ends in good order."""
    WorkerProcess.objects.filter(pk=worker_id).delete()


def standings(*, now: int) -> list[WorkerStanding]:
    """Return every known worker process and whether it lives, in the order of their names."""
    return [_standing(process, now) for process in WorkerProcess.objects.order_by("worker_id")[:MAX_LISTED]]


def serves(namespace: str, *, now: int) -> bool:
    """Tell whether a worker process lives that takes work of the namespace."""
    return any(
        each.life is Life.ALIVE and (not each.process.namespaces or namespace in each.process.namespaces.split(","))
        for each in standings(now=now)
    )


def _beat(process: WorkerProcess) -> None:
    now = now_ms()
    process.seen_at_ms = max(now, process.started_at_ms)
    if not WorkerProcess.objects.filter(pk=process.pk).update(seen_at_ms=process.seen_at_ms):
        process.save(force_insert=True)
        # A new worker takes the place of those that died here.
        dead = [each.process.pk for each in standings(now=now) if each.life is Life.DEAD]
        WorkerProcess.objects.filter(pk__in=dead).delete()
        WorkerProcess.objects.filter(seen_at_ms__lt=now - FORGET_MS).delete()


def _standing(process: WorkerProcess, now: int) -> WorkerStanding:
    silent_ms = max(0, now - process.seen_at_ms)
    life = Life.ALIVE if silent_ms <= SILENT_MS else Life.SILENT
    if process.host == _host():
        state, ticks = _seen(process.pid)
        if ticks != process.started_ticks:
            life = Life.DEAD
        elif state in _STOPPED:
            life = Life.STOPPED
    return WorkerStanding(process=process, life=life, silent_ms=silent_ms)


def _this_process(options: WorkerOptions) -> WorkerProcess:
    now = now_ms()
    return WorkerProcess(
        worker_id=options.worker_id,
        host=_host(),
        host_name=socket.gethostname()[:200],
        pid=os.getpid(),
        started_ticks=started_ticks(os.getpid()),
        slots=options.concurrency,
        namespaces=",".join(options.namespaces or ())[:2_000],
        started_at_ms=now,
        seen_at_ms=now,
    )


def _host() -> str:
    """Return what tells this boot of this machine, and this container's processes, from all others."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


def started_ticks(pid: int) -> int:
    """Return when the process started, in the kernel's ticks since boot; 0 where there is none, or only its remains."""
    return _seen(pid)[1]


def _seen(pid: int) -> tuple[str, int]:
    """Return the process's state, a letter as in `ps`, and when it started, as `started_ticks` says."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], 0 if fields[0] in ("Z", "X") else int(fields[19])
