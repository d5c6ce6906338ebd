"""`python -m benchmarks.authentication`: what finding out who calls costs, as a share of a read of one record.

In process, through Django's handler with all its middleware, over an instance that is thrown away: a server's
sockets would only make the share smaller. Slices take turns; a share is the median of the rounds' shares. `--profile`
prints where the time of authenticating goes.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SLICE_CALLS = 300


def main() -> None:
    """Read the options, make the instance, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.authentication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15, help="slices of each (default 15)")
    parser.add_argument("--keys", type=int, default=1_000, help="keys there are (default 1,000)")
    parser.add_argument("--profile", action="store_true", help="also print the profile of authenticating a known key")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="feltdb-bench-") as folder:
        os.environ["FELTDB_DATA_DIR"] = str(Path(folder) / "data")
        os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
        measure(options.rounds, options.keys, profile=options.profile)


def measure(rounds: int, keys: int, *, profile: bool) -> None:
    """Time the contestants in turns and print each one's share of a read."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from apps.keys import epoch, services, verify
    from apps.keys.principal import operator

    call_command("migrate", verbosity=0)
    root = operator("benchmark")

    def issue() -> services.IssuedKey:
        return services.issue_key(name="k", namespaces=["default"], scopes=["*"], issuer=root)

    issued, *_ = [issue() for _ in range(keys)]
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


def slice_s(run: Callable[[], None]) -> float:
    """Return the seconds that a slice of calls took."""
    began = time.perf_counter()
    for _ in range(SLICE_CALLS):
        run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
