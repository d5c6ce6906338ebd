"""A process of `test_revocation.py`: `verify` answers for keys as fast as it can, `revoke` ends them.

`revoke-without-waiting` and `revoke-unnoticed` break the promise on purpose, `revoke-and-die` ends after its commit.
All speak JSON lines. Instants are CLOCK_MONOTONIC nanoseconds, which all processes of a machine share.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext

import django

THREADS = 6


def verify() -> None:
    """Read the secrets, then verify them in rounds until standard input ends; report the last success of each."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from apps.keys import services, verify

    secrets: dict[str, str] = json.loads(sys.stdin.readline())
    began: dict[str, int] = {}
    rounds = [0] * THREADS
    stop = threading.Event()

    def verify_all() -> None:
        for key_id, secret in secrets.items():
            started = time.monotonic_ns()
            if verify.principal_of(secret, now=services.utc_now()) is not None:
                began[key_id] = max(began.get(key_id, 0), started)

    def go_on(number: int) -> None:
        while not stop.is_set():
            verify_all()
            rounds[number] += 1

    verify_all()
    with CaptureQueriesContext(connection) as queries:
        verify_all()
    print(json.dumps({"known": len(began), "queries": len(queries)}), flush=True)
    threads = [threading.Thread(target=go_on, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"began": began, "rounds": sum(rounds)}), flush=True)


def revoke(how: str) -> None:
    """Revoke each key that comes in and say when the call returned."""
    from apps.keys import epoch, services, trust
    from apps.keys.principal import operator

    def die() -> None:
        print(json.dumps({"committed": time.monotonic_ns()}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    if how == "revoke-without-waiting":
        trust.outlive_leases = lambda: None
    elif how == "revoke-and-die":
        trust.outlive_leases = die
    elif how == "revoke-unnoticed":
        epoch.Epoch.moving = lambda self: nullcontext()  # type: ignore[assignment, method-assign, misc]
        trust._move_mark = lambda: None
    for line in sys.stdin:
        services.revoke_key(line.strip(), by=operator("tests"))
        print(json.dumps({"returned": time.monotonic_ns()}), flush=True)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
    django.setup()
    what = sys.argv[1]
    verify() if what == "verify" else revoke(what)
