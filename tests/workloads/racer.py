"""A process that races others for work. Started by `test_races.py`; reads commands, writes answers, one JSON a line.

    {"do": "claim", "at": <time.monotonic()>, ...}   ->   {"ok": ...} or {"code": "WORKLOAD_NOT_READY"}

Every process waits for `at`, so that all of a round begin at the same moment.
"""

import json
import sys
import time
from typing import Any

import django

django.setup()

from apps.keys.principal import operator  # noqa: E402
from apps.workloads import services  # noqa: E402
from apps.workloads.commands import (  # noqa: E402
    ClaimById,
    ClaimNext,
    Completion,
    CreateWorkload,
    Failure,
    Fence,
    RetryPolicy,
    Subject,
)
from apps.workloads.errors import WorkloadError  # noqa: E402
from apps.workloads.states import Approval  # noqa: E402


def admit(command: dict[str, Any], now_ms: int) -> Any:
    command["requested_by"] = Subject(**command["requested_by"])
    if "retry_policy" in command:
        command["retry_policy"] = RetryPolicy(**command["retry_policy"])
    admission = services.admit(CreateWorkload(**command), now_ms=now_ms)
    return {"created": admission.created, "workload_id": admission.workload.workload_id}


def claim(command: dict[str, Any], now_ms: int) -> Any:
    return fence_of(services.claim(ClaimById(**command), now_ms=now_ms))


def claim_next(command: dict[str, Any], now_ms: int) -> Any:
    command["capabilities"] = frozenset(command["capabilities"])
    return [fence_of(each) for each in services.claim_next(ClaimNext(**command), now_ms=now_ms)]


def fence_of(claim: Any) -> dict[str, Any]:
    return {name: getattr(claim.fence, name) for name in claim.fence.__slots__}


def sweep(command: dict[str, Any], now_ms: int) -> Any:
    return list(services.sweep(now_ms=now_ms).recovered)


def start(command: dict[str, Any], now_ms: int) -> Any:
    return services.start(Fence(**command), now_ms=now_ms).state


def complete(command: dict[str, Any], now_ms: int) -> Any:
    completion = Completion(result_id=command.pop("result_id"), output=command.pop("output"))
    return services.complete(Fence(**command), completion, now_ms=now_ms)[1]


def fail(command: dict[str, Any], now_ms: int) -> Any:
    failure = Failure(kind=command.pop("kind"))
    return services.fail(Fence(**command), failure, now_ms=now_ms).state


def approve(command: dict[str, Any], now_ms: int) -> Any:
    by = operator(command.pop("by"))
    return services.decide_approval(**command, outcome=Approval.APPROVED, by=by, now_ms=now_ms)[0].state


ACTIONS = {
    "approve": approve,
    "admit": admit,
    "claim": claim,
    "claim_next": claim_next,
    "sweep": sweep,
    "start": start,
    "complete": complete,
    "fail": fail,
}


def main() -> None:
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        time.sleep(max(0.0, order["at"] - time.monotonic()))
        try:
            answer = {"ok": ACTIONS[order["do"]](order["command"], order["now_ms"])}
        except WorkloadError as error:
            answer = {"code": error.code, "details": error.details}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
