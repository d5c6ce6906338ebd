"""One program in a process of its own: `python -m apps.workloads.isolation.child NAME FD`. Started by `parent.py`.

Its context asks the worker for everything. Whatever the program does to this process, the worker only sees it end.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

_PR_SET_PDEATHSIG = 1


class ChildContext:
    """Implements `capabilities.Context` by asking the worker. Safe for the program's own threads."""

    def __init__(self, end: socket.socket, told: dict[str, Any]) -> None:
        self._end = end
        self._turn = threading.Lock()
        self.workload_id: str = told["workload_id"]
        self.namespace: str = told["namespace"]
        self.attempt: int = told["attempt"]
        self.traceparent: str | None = told["traceparent"]
        self.deadline_at_ms: int | None = told["deadline_at_ms"]

    def _ask(self, what: str, **members: Any) -> Any:
        from apps.workloads.isolation import wire

        with self._turn:
            wire.send(self._end, {"ask": what, "with": members})
            answer = wire.receive(self._end)
        if "refused" in answer:
            raise wire.exception(answer["refused"])
        return answer["answer"]

    def cancelled(self) -> bool:
        """Tell whether to give up."""
        return bool(self._ask("cancelled"))

    def heartbeat(self) -> None:
        """Show life now."""
        self._ask("heartbeat")

    def checkpoint(self, state: Any) -> None:
        """Keep something for an attempt that goes on after this one."""
        self._ask("checkpoint", state=state)

    def checkpoints(self) -> Sequence[Any]:
        """Return what was kept."""
        kept: list[Any] = self._ask("checkpoints")
        return kept

    def commit(self, step: str, mutations: Sequence[Any], *, preconditions: Sequence[Any] = ()) -> Any:
        """Write records."""
        from apps.workloads.isolation import wire

        told = self._ask(
            "commit",
            step=step,
            mutations=[asdict(each) for each in mutations],
            preconditions=[asdict(each) for each in preconditions],
        )
        return wire.commit_in(told)

    def get(self, collection: str, record_id: str) -> Any:
        """Read one record."""
        from apps.workloads.isolation import wire

        return wire.record_in(self._ask("get", collection=collection, record_id=record_id))

    def page(self, collection: str, *, after: str | None = None, limit: int = 100) -> Sequence[Any]:
        """Read records in the order of their ids."""
        from apps.workloads.isolation import wire

        return [wire.record_in(each) for each in self._ask("page", collection=collection, after=after, limit=limit)]

    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None = None,
        order_by: Sequence[tuple[str, str]] = (),
        limit: int = 100,
    ) -> Sequence[Any]:
        """Read records that match."""
        from apps.workloads.isolation import wire

        order = [list(each) for each in order_by]
        found = self._ask("query", collection=collection, where=where, order_by=order, limit=limit)
        return [wire.record_in(each) for each in found]


def main(name: str, descriptor: int, parent: int) -> None:
    """Run the program once and say how it ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # the worker ended before the kernel was told to end us with it
    import django

    django.setup()
    from apps.workloads import capabilities
    from apps.workloads.isolation import wire

    end = socket.socket(fileno=descriptor)
    order = wire.receive(end)
    found = capabilities.find(name)
    try:
        if found is None:
            raise capabilities.Failed("capability_missing", f"{name} is not installed here")
        wire.send(end, {"began": True})
        output = found.program(order["input"], ChildContext(end, order))
        wire.send(end, {"output": output})
    except wire.Ended:
        return
    except BaseException as error:
        wire.send(end, {"refused": wire.refusal(error)})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
