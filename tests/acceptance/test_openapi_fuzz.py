"""Requests made up from the OpenAPI document, as every kind of caller, against a real server: nothing fails, and every
answer is one that the document knows. Cost: about a minute and a half; by the minute in `make torture`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from apps.keys.scopes import EVERYTHING, SCOPES
from demo.instance import ROOT, Instance

pytestmark = pytest.mark.acceptance

SEED = "20261202"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
PASSWORD = "a long enough pass phrase"
MAKE_VIEWER = f"""
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.operations.services.operators import Role, create_operator
if not Operator.objects.filter(username="vera").exists():
    create_operator(name="vera", password={PASSWORD!r}, role=Role.VIEWER, by=operator("tests"))
"""
ROLES = ("a program", "an administrator", "a viewer", "a worker", "nobody")
SECONDS = {"a program": 40}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("fuzzed")) as made:
        made.start_server()
        yield made


def token(instance: Instance, role: str) -> str | None:
    """Return the bearer token of a caller of that kind. A program that may revoke keys would soon revoke its own."""
    if role == "a program":
        return instance.new_key(*sorted(set(SCOPES) - {EVERYTHING, "keys:admin"}))
    if role == "an administrator":
        return instance.new_key("keys:admin", "grants:write", "audit:read", "operator:read", "operator:write")
    if role == "a worker":
        return instance.new_key(
            "workload:claim", "workload:execute", "worker:register", "worker:heartbeat", worker_id="w1"
        )
    if role == "a viewer":
        instance.manage("shell", "-c", MAKE_VIEWER)
        opened = httpx.post(f"{instance.url}/v1/auth/signin", json={"username": "vera", "password": PASSWORD})
        return str(opened.json()["access_token"])
    return None


def fuzz(instance: Instance, role: str, *, seconds: int, seed: str) -> "subprocess.CompletedProcess[str]":
    bearer = token(instance, role)
    headers = [] if bearer is None else ["-H", f"Authorization: Bearer {bearer}"]
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{instance.url}/v1/openapi.json",
        *headers,
        *("-H", "FeltDB-Namespace: default"),
        *("--checks", ",".join(CHECKS)),
        *("--exclude-path", "/v1/events"),  # which ends when it likes: tests/state/test_events.py
        *("--max-examples", "5"),
        *("--max-time", str(seconds)),
        *("--request-timeout", "40"),  # longer than any wait that may be asked for
        *("--seed", seed),
        *("--warnings", "off"),
        "--continue-on-failure",
        "--no-color",
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.acceptance.fuzz_hooks", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds * 3 + 120,
        cwd=instance.data_dir,
        env=environment,
    )


@pytest.mark.parametrize("role", ROLES)
def test_no_request_that_the_document_allows_or_forbids_fails_or_gets_an_answer_it_does_not_know(
    instance: Instance, role: str
) -> None:
    done = fuzz(instance, role, seconds=SECONDS.get(role, 10), seed=SEED)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}\n{instance.last_log_lines()}"
    assert "Traceback" not in instance.log_path.read_text()


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("role", ROLES)
def test_for_long(instance: Instance, role: str) -> None:
    minutes = float(os.environ.get("FELTDB_TORTURE_MINUTES", "30")) / 10
    done = fuzz(instance, role, seconds=max(10, int(minutes * 60)), seed=str(int.from_bytes(os.urandom(4))))
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}\n{instance.last_log_lines()}"
