"""Triggers and work: say what a change starts, ask for work, and be the worker that does it. Part of `FeltDB`.

A worker's round: claim ─► start ─► run the program, the lease kept alive beside it ─► complete, fail or cancelled.
Execution is at least once: an attempt that was lost is made again, so let effects be repeatable.
"""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from feltdb_client.errors import ApiError, FeltDBError, NotFound, Unreachable
from feltdb_client.model import JSONObject
from feltdb_client.transport import Transport

logger = logging.getLogger("feltdb_client")


class Failed(Exception):
    """Raised by a program: `kind` decides whether it is tried again; `effect="unknown"` where it may have acted."""

    def __init__(self, kind: str, message: str = "", *, effect: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.effect = effect


class Job:
    """One attempt at one piece of work, as its program sees it.

    `stop` is set when the program should give up: somebody cancelled the work (`cancelled`), or it is no longer held.
    """

    def __init__(self, claim: Mapping[str, Any]) -> None:
        self.workload_id: str = claim["workload_id"]
        self.definition_id: str = claim["definition_id"]
        self.input: Any = claim["input"]
        self.stop = threading.Event()
        self.cancelled = False
        self.fence = {name: claim[name] for name in ("worker_id", "claim_id", "fencing_token")}


Program = Callable[[Job], Any]


class Working:
    """Part of `FeltDB`."""

    _transport: Transport

    def define_trigger(self, definition: JSONObject) -> JSONObject:
        """Define a trigger, new or again; the same again changes nothing. Returns it as it stands."""
        return dict(self._transport.read("POST", "/v1/triggers", body=definition))

    def request_work(
        self, definition_id: str, input: Any = None, *, idempotency_key: str | None = None, **members: Any
    ) -> JSONObject:
        """Ask for work; the same request under the same key is the same work. Returns the work as it stands.

        `members` are those of the API: priority, not_before_at_ms, retry_policy, timeouts, dependencies...
        """
        body = {**members, "definition_id": definition_id, "idempotency_key": idempotency_key or uuid.uuid4().hex}
        return dict(self._transport.read("POST", "/v1/workloads", body={**body, "input": input}))

    def workload(self, workload_id: str) -> JSONObject | None:
        """Return the work as it stands, None where there is none."""
        try:
            return dict(self._transport.read("GET", _path(workload_id)))
        except NotFound:
            return None

    def result(self, workload_id: str) -> JSONObject:
        """Return `{"workload_id", "state", "result"}`; the result is None until the work succeeded. Raises NotFound."""
        return dict(self._transport.read("GET", f"{_path(workload_id)}/result"))

    def run_worker(
        self,
        worker_id: str,
        programs: Mapping[str, Program],
        *,
        stop: threading.Event | None = None,
        wait_s: float = 5.0,
        lease_s: float = 30.0,
    ) -> None:
        """Be worker `worker_id`, one piece of work at a time, until `stop` is set. `programs` are by capability.

        The client's key must be this worker's. A server that is away is waited for; a refusal of the claim is raised.
        """
        stop = stop or threading.Event()
        while not stop.is_set():
            try:
                self.work_once(worker_id, programs, wait_s=wait_s, lease_s=lease_s)
            except Unreachable as error:
                logger.warning("worker %s: %s", worker_id, error)

    def work_once(
        self, worker_id: str, programs: Mapping[str, Program], *, wait_s: float = 0.0, lease_s: float = 30.0
    ) -> str | None:
        """Do the next piece of work, waiting `wait_s` (30) for some; return its id, None where there was none."""
        asked = {"worker_id": worker_id, "capabilities": sorted(programs), "max": 1}
        asked |= {"lease_ms": round(lease_s * 1000), "wait_ms": round(wait_s * 1000)}
        claims = self._transport.read("POST", "/v1/workloads/claim", body=asked, extra_timeout_s=wait_s)["claims"]
        if not claims:
            return None
        job = Job(claims[0])
        try:
            self._say(job, "start")
            word, report = self._run(job, programs[job.definition_id], lease_s)
            self._say(job, word, **report)
        except ApiError as error:
            # Somebody else holds it now, or it ended meanwhile: what this attempt did may be done again.
            logger.warning("work %s was dropped: %s", job.workload_id, error)
        return job.workload_id

    def _run(self, job: Job, program: Program, lease_s: float) -> tuple[str, dict[str, Any]]:
        """Run the program with its lease kept alive; return the word that reports it, and what belongs to it."""
        ended = threading.Event()
        alive = threading.Thread(target=self._keep_alive, args=(job, ended, lease_s), daemon=True)
        alive.start()
        try:
            output = program(job)
            json.dumps(output, allow_nan=False)
            report = {"result_id": f"{job.workload_id}:{job.fence['fencing_token']}", "output": output}
            return ("cancelled", {}) if job.cancelled else ("complete", report)
        except Failed as failed:
            effect = {} if failed.effect is None else {"effect": failed.effect}
            return "fail", {"kind": failed.kind, "error": str(failed), **effect}
        except Exception as error:
            logger.exception("work %s failed", job.workload_id)
            return "fail", {"kind": "execution_error", "error": f"{type(error).__name__}: {error}"[:1000]}
        finally:
            ended.set()
            alive.join()

    def _keep_alive(self, job: Job, ended: threading.Event, lease_s: float) -> None:
        """Extend the lease three times in its length until the program ended or the work is no longer held."""
        while not ended.wait(lease_s / 3):
            try:
                answer = self._say(job, "heartbeat", extend_ms=round(lease_s * 1000))
            except FeltDBError as error:
                logger.warning("work %s is no longer held: %s", job.workload_id, error)
                job.stop.set()
                return
            if answer.get("cancel_requested"):
                job.cancelled = True
                job.stop.set()

    def _say(self, job: Job, word: str, **members: Any) -> Any:
        return self._transport.read("POST", f"{_path(job.workload_id)}/{word}", body={**job.fence, **members})


def _path(workload_id: str) -> str:
    return f"/v1/workloads/{quote(workload_id, safe='')}"
