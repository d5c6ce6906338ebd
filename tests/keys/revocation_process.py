"""A process of `test_revocation.py`: `verify` answers for keys as fast as it can, `revoke` ends them.

Both speak JSON lines. Instants are CLOCK_MONOTONIC nanoseconds, which all processes of a host share.
"""

import json
import os
import sys
import time

import django


def verify() -> None:
    """Read the secrets, then verify them in rounds until standard input ends; report the last success of each."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from apps.keys import services, verify

    secrets: dict[str, str] = json.loads(sys.stdin.readline())
    began: dict[str, int] = {}

    def verify_all() -> None:
        for key_id, secret in secrets.items():
            started = time.monotonic_ns()
            if verify.principal_of(secret, now=services.utc_now()) is not None:
                began[key_id] = started

    verify_all()
    with CaptureQueriesContext(connection) as queries:
        verify_all()
    print(json.dumps({"known": len(began), "queries": len(queries)}), flush=True)
    rounds = 0
    os.set_blocking(0, False)
    while sys.stdin.buffer.raw.read(1) is None:  # type: ignore[attr-defined]
        verify_all()
        rounds += 1
    print(json.dumps({"began": began, "rounds": rounds}), flush=True)


def revoke() -> None:
    """Revoke each key that comes in and say when the call returned."""
    from apps.keys import services
    from apps.keys.principal import operator

    for line in sys.stdin:
        services.revoke_key(line.strip(), by=operator("tests"))
        print(json.dumps({"returned": time.monotonic_ns()}), flush=True)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
    django.setup()
    {"verify": verify, "revoke": revoke}[sys.argv[1]]()
