"""A backup under write load and running work, restored on an empty machine and started there. Cost: 60 s a database, of
which most is waiting for the leases of work that ran when the bundle was made."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_chaos import database

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import time
from apps.workloads.capabilities import capability
from feltdb_engine import Mutation

@capability("ship")
def ship(work, context):
    number = work["record"]["n"]
    # An insert: doing it a second time, not as the first, fails.
    context.commit("ship", [Mutation(kind="insert", collection="shipped", id=str(number), value={"n": number})])
    time.sleep(0.01)
    return number
"""
SET_UP = """
import json, sys
import django
django.setup()
from django.core.management import call_command
call_command("setup", verbosity=0, stdout=sys.stderr)
from apps.keys.principal import operator
from apps.keys.services import issue_key
from apps.triggers import services
from apps.workloads.clock import now_ms
by = operator("tests")
document = {"trigger_id": "ship-orders", "source_collection": "orders", "change_kind": "insert"}
services.define("default", {**document, "target_capability": "ship"}, by=by, now_ms=now_ms())
print(issue_key(name="kept", scopes=["state:read"], namespaces=["default"], issuer=by).secret)
"""
WRITE = """
import sys, time
import django
django.setup()
from apps.state import stores
from feltdb_engine import Mutation
n = int(sys.argv[1])
while n < int(sys.argv[2]):
    stores.store("default").commit([Mutation(kind="insert", collection="orders", id=str(n), value={"n": n})])
    print(n, flush=True)
    n += 1
    time.sleep(0.004)
"""
LOOK = """
import json
import django
django.setup()
from apps.keys.audit.models import AuditEvent
from apps.state import stores
from apps.triggers.models import Trigger, TriggerCursor
from apps.triggers import services as triggers
from apps.workloads.clock import now_ms
from apps.workloads.models import Request
store = stores.store("default")
rows = list(Request.objects.values_list("idempotency_key", "workload__state"))
def all_of(collection):
    found, after = [], None
    while True:
        page = store.page(collection, after=after, limit=1000)
        found += [[int(one.id), one.version] for one in page.records]
        if not page.records:
            return sorted(found)
        after = page.records[-1].id
print(json.dumps({
    "head": store.head().sequence,
    "cursors": list(TriggerCursor.objects.values_list("sequence", flat=True)),
    "work": rows,
    "changes": [int(key.rsplit(":", 1)[1]) for key, _ in rows],
    "orders": all_of("orders"),
    "shipped": all_of("shipped"),
    "triggers": list(Trigger.objects.values_list("trigger_id", "state")),
    "audit": sorted(set(AuditEvent.objects.values_list("action", flat=True))),
    "apart": triggers.look("default", now_ms=now_ms()).kind,
    "pins": [pin.name for pin in store.pins()],
}))
"""


class Machine:
    """A data directory and a database of its own."""

    def __init__(self, data_dir: Path, database_url: str, programs: Path) -> None:
        data_dir.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
            **({"DATABASE_URL": database_url} if database_url else {}),
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",
            "FELTDB_DATA_DIR": str(data_dir),
            "FELTDB_APPS": "shipping",
            "PYTHONPATH": str(programs),
        }
        self.data_dir = data_dir

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        process = self.start(*arguments)
        out, err = process.communicate(stdin, timeout=120)
        assert process.returncode == code, err + out
        return out

    def manage(self, *arguments: str, stdin: str = "", code: int = 0) -> Any:
        out = self.run("manage.py", *arguments, "--json", stdin=stdin, code=code)
        return json.loads(out) if out else None

    def look(self) -> dict[str, Any]:
        seen: dict[str, Any] = json.loads(self.run("-c", LOOK))
        return seen


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    app = tmp_path / "programs" / "shipping"
    app.mkdir(parents=True)
    (app / "__init__.py").write_text("")
    (app / "capabilities.py").write_text(PROGRAM)
    return app.parent


@pytest.mark.timeout(280)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_restored_goes_on_as_if_nothing_had_happened(tmp_path: Path, programs: Path, kind: str) -> None:
    with database(kind) as there, database(kind) as here:
        old = Machine(tmp_path / "old", there, programs)
        key = old.run("-c", SET_UP).strip().splitlines()[-1]
        sealed, bundle = str(tmp_path / "sealed"), str(tmp_path / "bundle")
        old.manage("secrets", "export", sealed, stdin="a passphrase of some length\n")
        acknowledged = back_up_under_load(old, bundle)
        before = old.look()

        new = Machine(tmp_path / "new", here, programs)
        new.manage("secrets", "import", sealed, stdin="a passphrase of some length\n")
        assert new.manage("backup", "verify", bundle)["ok"] is True
        told = new.manage("backup", "restore", bundle)
        assert told["lost_secrets"] == [] and told["apart"] == []

        seen = new.look()
        assert seen["apart"] == "nothing" and seen["triggers"] == [["ship-orders", "active"]]
        assert max(seen["cursors"]) <= seen["head"], "no cursor beyond the store"
        assert max(seen["changes"], default=0) <= seen["head"], "no work for a change that the store does not hold"
        assert 0 < len(seen["orders"]) < len(acknowledged) and len(seen["work"]) < len(before["work"])
        assert [number for number, _ in seen["orders"]] == acknowledged[: len(seen["orders"])], "a prefix, whole"
        assert set(before["audit"]) - {"backup.created"} | {"backup.restored"} == set(seen["audit"])
        assert not [name for name in seen["pins"] if name.startswith("backup:")]
        new.run("manage.py", "keys", "check", "GET", "/v1/collections", stdin=key + "\n")  # ends with 0: it verifies

        seen = worked_off(new)
        assert seen["shipped"] == [[number, 1] for number, _ in seen["orders"]], "none missed, none twice"
        assert len(seen["work"]) == len(set(seen["changes"])) == len(seen["orders"])
        assert {state for _, state in seen["work"]} == {"SUCCEEDED"}
        new.run("-c", WRITE, "100000", "100001")
        new.run("manage.py", "worker", "--once")
        assert new.look()["shipped"][-1] == [100000, 1]

        new.manage("backup", "restore", bundle, code=1)
        assert new.look()["shipped"][-1] == [100000, 1], "an instance that is here stays untouched"


def worked_off(machine: Machine) -> dict[str, Any]:
    """Work until nothing is left: what ran when the bundle was made comes back when its lease has ended."""
    until = time.monotonic() + 60
    while True:
        machine.run("manage.py", "worker", "--once")
        seen = machine.look()
        if {state for _, state in seen["work"]} <= {"SUCCEEDED", "DEAD_LETTER"} or time.monotonic() > until:
            return seen
        time.sleep(2)


def back_up_under_load(old: Machine, bundle: str) -> list[int]:
    """Write and work meanwhile; returns the numbers of the orders that were acknowledged in all."""
    worker = old.start("manage.py", "worker", "--concurrency", "2")
    writer = old.start("-c", WRITE, "0", "100000")
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(200)]
    began = time.monotonic()
    made = old.manage("backup", "create", bundle)
    assert made["path"] == bundle and time.monotonic() - began < 60
    acknowledged += [int(writer.stdout.readline()) for _ in range(100)]
    old.manage("backup", "restore", bundle, "--replace", code=1)  # never over an instance that runs
    writer.terminate()
    acknowledged += [int(line) for line in writer.stdout.read().split()]  # what was read ahead included
    writer.communicate(timeout=30)
    worker.terminate()
    worker.communicate(timeout=60)
    return acknowledged
