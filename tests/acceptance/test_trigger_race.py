"""Evaluators racing in real processes, with no lease between them: only the cursors decide. Cost: about 10 seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES, CHANGES = 4, 500
WRITE = """
import django; django.setup()
from apps.state import stores
from feltdb_engine import Mutation
stores.store("default").commit(
    [Mutation(kind="insert", collection="orders", id=str(n), value={"n": n}) for n in range(%d)]
)
"""


def start(data_dir: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "feltsite.settings", "FELTDB_DATA_DIR": str(data_dir)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def run(data_dir: Path, *arguments: str, stdin: str = "") -> str:
    process = start(data_dir, *arguments)
    out, err = process.communicate(stdin, timeout=60)
    assert process.returncode == 0, err
    return out


def test_processes_that_evaluate_at_once_share_the_work_and_double_none(tmp_path: Path) -> None:
    run(tmp_path, "manage.py", "setup")
    for trigger_id in ("one", "two"):
        document = {
            "trigger_id": trigger_id,
            "source_collection": "orders",
            "change_kind": "insert",
            "target_capability": "identity",
        }
        run(tmp_path, "manage.py", "trigger", "define", "--input", "-", stdin=json.dumps(document))
    run(tmp_path, "-c", WRITE % CHANGES)

    racing = [start(tmp_path, "manage.py", "trigger", "evaluate", "--json") for _ in range(PROCESSES)]
    told: list[dict[str, Any]] = []
    for process in racing:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        told += json.loads(out)["results"]

    made = [row["workload_id"] for row in told if not row["duplicate"]]
    assert len(made) == len(set(made)) == 2 * CHANGES
    assert {(row["trigger_id"], row["source_change_id"]) for row in told} == {
        (row["trigger_id"], row["source_change_id"]) for row in told if not row["duplicate"]
    }
    assert json.loads(run(tmp_path, "manage.py", "trigger", "evaluate", "--json")) == {"results": []}
