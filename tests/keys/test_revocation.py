"""Revocation across real processes that remember verified keys. About 5 s."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.acceptance

KEYS = 25
VERIFIERS = 2


def environment(data_dir: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")}
    return {**kept, "FELTDB_DATA_DIR": str(data_dir)}


def manage(data_dir: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments], env=environment(data_dir), check=True, capture_output=True, text=True
    )
    return done.stdout


def start(data_dir: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.keys.revocation_process", what],
        env=environment(data_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


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


@pytest.mark.timeout(90)
def test_no_verification_that_begins_after_revoke_returned_succeeds_in_any_process(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "-v0")
    secrets = json.loads(manage(tmp_path, "shell", "-v0", "-c", ISSUE.format(count=KEYS)))
    verifiers = [start(tmp_path, "verify") for _ in range(VERIFIERS)]
    revoker = start(tmp_path, "revoke")
    try:
        for verifier in verifiers:
            say(verifier, json.dumps(secrets))
            assert hear(verifier) == {"known": KEYS, "queries": 0}, "nothing was remembered: this would prove nothing"
        returned = {}
        for key_id in secrets:
            say(revoker, key_id)
            returned[key_id] = hear(revoker)["returned"]
        time.sleep(0.2)
        for verifier in verifiers:
            say(verifier, "stop")
            report = hear(verifier)
            late = {key_id for key_id, began in report["began"].items() if began > returned[key_id]}
            assert late == set(), report
            assert set(report["began"]) == set(secrets)
    finally:
        for process in (*verifiers, revoker):
            process.kill()
            process.communicate()


@pytest.mark.timeout(90)
def test_the_command_revokes_in_a_process_that_already_knows_the_key(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "-v0")
    made = json.loads(manage(tmp_path, "keys", "create", "--name", "k", "--scope", "state:read", "--json"))
    verifier = start(tmp_path, "verify")
    try:
        say(verifier, json.dumps({made["id"]: made["secret"]}))
        assert hear(verifier) == {"known": 1, "queries": 0}
        manage(tmp_path, "keys", "revoke", made["id"])
        returned = time.monotonic_ns()
        time.sleep(0.2)
        say(verifier, "stop")
        report = hear(verifier)
        assert report["began"][made["id"]] < returned
        assert report["rounds"] > 10
    finally:
        verifier.kill()
        verifier.communicate()
