"""`python -m benchmarks.authentication`: what finding out who calls costs, as a share of a read of one record.

In process, through Django's handler with all its middleware, over an instance that is thrown away: a server's
sockets would only make the share smaller. Slices take turns; a share is the median of the rounds' shares. `--profile`
prints where the time of authenticating goes. Besides: what the lists of keys take, the console's and the API's, and how
many statements each asks.
"""

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from datetime import timedelta

from benchmarks.database import instance, settle

SLICE_CALLS = 300
BATCH = 5_000


def main() -> None:
    """Read the options, make the instance, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.authentication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15, help="slices of each (default 15)")
    parser.add_argument("--keys", type=int, default=1_000, help="keys there are (default 1,000)")
    parser.add_argument(
        "--postgres", default="", metavar="URL", help="measure on this server, in a database of its own"
    )
    parser.add_argument("--profile", action="store_true", help="also print the profile of authenticating a known key")
    options = parser.parse_args()
    with instance(options.postgres):
        measure(options.rounds, options.keys, profile=options.profile)
        measure_lists(options.rounds)


def measure(rounds: int, keys: int, *, profile: bool) -> None:
    """Time the contestants in turns and print each one's share of a read."""
    from django.test import Client

    from apps.keys import epoch, services, verify
    from apps.keys.principal import operator

    issued = services.issue_key(name="k", namespaces=["default"], scopes=["*"], issuer=operator("benchmark"))
    fill(keys - 1)
    settle()
    client = Client(headers={"Authorization": f"Bearer {issued.secret}", "Host": "127.0.0.1"})
    path = "/v1/collections/orders/o-1"
    stored = client.put(path, b'{"amount": 1}', content_type="application/json", RAW_URI=path)
    assert stored.status_code == 201, stored.content

    def read() -> None:
        assert client.get(path, RAW_URI=path).status_code == 200

    def known() -> None:
        assert verify.principal_of(issued.secret, now=services.utc_now()) is not None

    def after_a_revocation() -> None:
        with epoch.shared().moving():  # as every revocation ends: everything remembered is read anew once
            pass
        known()

    contestants: dict[str, Callable[[], None]] = {
        "a key that is known": known,
        "the first time after any key was revoked": after_a_revocation,
    }
    shares: dict[str, list[float]] = {name: [] for name in contestants}
    for run in (read, *contestants.values()):
        slice_s(run)  # warm
    for _ in range(rounds):
        whole = slice_s(read)
        for name, run in contestants.items():
            shares[name].append(slice_s(run) / whole)
    print(f"{keys:,} keys; medians of {rounds} slices of {SLICE_CALLS} calls; a read of one record is 100 %\n")
    for name, values in shares.items():
        print(f"{statistics.median(values):8.2%}  authenticating {name}")
    if profile:
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(SLICE_CALLS * 10):
            known()
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(10)


def fill(count: int) -> None:
    """Make keys beside the one that calls; nobody has their secrets."""
    from apps.keys import services
    from apps.keys.models import ApiKey, KeySecret

    now = services.utc_now()
    for start in range(0, count, BATCH):
        places = range(start, min(count, start + BATCH))
        made = [
            ApiKey(
                id=f"fill{place:08d}",
                name=f"key {place}",
                namespaces=["default"],
                scopes=["state:read"],
                created_at=now - timedelta(minutes=place),
                created_by="service:benchmark",
            )
            for place in places
        ]
        ApiKey.objects.bulk_create(made)
        KeySecret.objects.bulk_create(
            KeySecret(key=key, digest=place.to_bytes(32, "big"), pepper_version=1, created_at=now)
            for place, key in zip(places, made, strict=True)
        )


def measure_lists(rounds: int) -> None:
    """Time the lists of keys in turns and print what each took and asked."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    from apps.keys import services
    from apps.keys.models import Operator
    from apps.keys.principal import operator

    console = Client(headers={"Host": "127.0.0.1"})
    console.force_login(Operator.objects.create_superuser("bench"))
    issued = services.issue_key(name="l", namespaces=["default"], scopes=["*"], issuer=operator("benchmark"))
    api = Client(headers={"Authorization": f"Bearer {issued.secret}", "Host": "127.0.0.1"})
    page = reverse("admin:keys_apikey_changelist")
    paths = {
        path: api if path.startswith("/v1") else console
        for path in (page, f"{page}?state=live", f"{page}?state=revoked", f"{page}?p=2", f"{page}?q=key+77", "/v1/keys")
    }
    asked: dict[str, int] = {}
    took: dict[str, list[float]] = {path: [] for path in paths}
    for path, client in paths.items():
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path, RAW_URI=path)
        assert answer.status_code == 200, (path, answer.status_code)
        asked[path] = len(queries)
    for _ in range(rounds):
        for path, client in paths.items():
            began = time.perf_counter()
            client.get(path, RAW_URI=path)
            took[path].append(time.perf_counter() - began)
    print("\n  median     worst  statements  list")
    for path, times in took.items():
        print(f"{statistics.median(times) * 1e3:5.0f} ms  {max(times) * 1e3:5.0f} ms  {asked[path]:10}  {path}")


def slice_s(run: Callable[[], None]) -> float:
    """Return the seconds that a slice of calls took."""
    began = time.perf_counter()
    for _ in range(SLICE_CALLS):
        run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
