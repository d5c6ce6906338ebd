"""Revocation across real processes that remember verified keys: on one host and on two that share a database.

A host is a data directory: what its processes share. Breaches made on purpose show that the looks see any.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import database

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]

KEYS = 25
HOSTS = 2


@dataclass(frozen=True)
class Place:
    """Where the processes run: their hosts' data directories, and the database's URL ("" for SQLite)."""

    hosts: list[Path]
    url: str

    def environment(self, host: int) -> dict[str, str]:
        apart = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "FELTDB_TEST_DATABASE")
        kept = {name: value for name, value in os.environ.items() if name not in apart}
        given = {"DATABASE_URL": self.url, "FELTDB_KEY_PEPPER": "p" * 43} if self.url else {}
        return {**kept, **given, "FELTDB_DATA_DIR": str(self.hosts[host % len(self.hosts)])}

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env=self.environment(0),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def start(self, what: str, *, host: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.keys.revocation_process", what],
            env=self.environment(host),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )


SQLITE, SHARED, APART = "SQLite", "PostgreSQL", "two hosts on PostgreSQL"


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == SQLITE:
        made = Place([tmp_path], "")
        made.manage("migrate", "-v0")
        yield made
        return
    with database("revocation") as url:
        made = Place([tmp_path / str(host) for host in range(HOSTS if request.param == APART else 1)], url)
        made.manage("migrate", "-v0")
        yield made


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")


def hear(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


ISSUE = """
import json
from apps.keys.principal import operator
from apps.keys.services import issue_key
made = [issue_key(name="k", namespaces=["a"], scopes=["*"], issuer=operator("tests")) for _ in range({count})]
print(json.dumps({{issued.key.id: issued.secret for issued in made}}))
"""


def late(place: Place, revoke: str) -> list[set[str]]:
    """Revoke keys one by one on the first host while each host verifies them all in several threads.

    Return for each host those of which a verification that began after the revoking call had returned succeeded.
    """
    secrets = json.loads(place.manage("shell", "-v0", "-c", ISSUE.format(count=KEYS)))
    verifiers = [place.start("verify", host=host) for host in range(HOSTS)]
    revoker = place.start(revoke, host=0)
    try:
        for verifier in verifiers:
            say(verifier, json.dumps(secrets))
            heard = hear(verifier)
            assert heard["known"] == KEYS
            assert heard["queries"] < KEYS, "nothing was remembered: this would prove nothing"
        returned = {}
        for key_id in secrets:
            say(revoker, key_id)
            returned[key_id] = hear(revoker)["returned"]
        time.sleep(0.2)
        found = []
        for verifier in verifiers:
            say(verifier, "stop")
            report = hear(verifier)
            assert set(report["began"]) == set(secrets)
            found.append({key_id for key_id, began in report["began"].items() if began > returned[key_id]})
        return found
    finally:
        for process in (*verifiers, revoker):
            process.kill()
            process.communicate()


@pytest.mark.parametrize("place", [SQLITE, SHARED, APART], indirect=True)
def test_no_verification_that_begins_after_revoke_returned_succeeds_in_any_process(place: Place) -> None:
    assert late(place, "revoke") == [set()] * HOSTS


@pytest.mark.parametrize("place", [APART], indirect=True)
def test_a_revocation_that_does_not_wait_for_the_leases_of_other_hosts_is_caught(place: Place) -> None:
    here, there = late(place, "revoke-without-waiting")
    assert there and not here, "its own host has the epoch, another has leases"


@pytest.mark.parametrize("place", [SQLITE, SHARED], indirect=True)
def test_a_revocation_that_moves_neither_epoch_nor_mark_is_caught(place: Place) -> None:
    assert all(late(place, "revoke-unnoticed"))


@pytest.mark.parametrize("place", [APART], indirect=True)
def test_a_revoke_that_is_killed_after_its_commit_holds_on_every_host_within_a_lease(place: Place) -> None:
    secrets = json.loads(place.manage("shell", "-v0", "-c", ISSUE.format(count=1)))
    verifiers = [place.start("verify", host=host) for host in range(HOSTS)]
    try:
        for verifier in verifiers:
            say(verifier, json.dumps(secrets))
            assert hear(verifier)["known"] == 1
        revoker = place.start("revoke-and-die", host=0)
        say(revoker, next(iter(secrets)))
        committed = hear(revoker)["committed"]
        assert revoker.wait(60) == -9
        revoker.communicate()
        time.sleep(0.5)
        for verifier in verifiers:
            say(verifier, "stop")
            report = hear(verifier)
            began = report["began"][next(iter(secrets))]
            assert began < committed + 110 * 1_000_000, report
            assert report["rounds"] > 10
    finally:
        for process in verifiers:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("place", [SQLITE, APART], indirect=True)
def test_the_command_revokes_in_a_process_that_already_knows_the_key(place: Place) -> None:
    made = json.loads(place.manage("keys", "create", "--name", "k", "--scope", "state:read", "--json"))
    verifier = place.start("verify", host=1)
    try:
        say(verifier, json.dumps({made["id"]: made["secret"]}))
        assert hear(verifier)["known"] == 1
        place.manage("keys", "revoke", made["id"])
        returned = time.monotonic_ns()
        time.sleep(0.2)
        say(verifier, "stop")
        report = hear(verifier)
        assert report["began"][made["id"]] < returned
        assert report["rounds"] > 10
    finally:
        verifier.kill()
        verifier.communicate()
