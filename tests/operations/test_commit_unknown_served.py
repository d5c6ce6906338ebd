"""A commit that its deadline cuts off, over HTTP: told `committed: "unknown"`, and the transaction id settles it.

A waiter that has had patience for 20 ms forces for itself and is told the truth, late. Here the server's waiters are
made more patient than their deadline, so that it is the deadline that ends them. Cost: 10 s.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.instance import Instance
from tests.engine.injection import DATA_SYNC, Injection
from tests.operations.test_faults import children

pytestmark = pytest.mark.acceptance

DEADLINE_S, HELD_S, AT_ONCE = 1.0, 4.0, 4
PATIENT = "from feltdb_engine import limits\nlimits.FORCE_PATIENCE_S = 60.0\n"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    app = tmp_path / "programs" / "patient"
    app.mkdir(parents=True)
    (app / "__init__.py").write_text(PATIENT)
    environment = {"FELTDB_APPS": "patient", "PYTHONPATH": str(app.parent), "WEB_WORKERS": "1"}
    deadline = str(int(DEADLINE_S * 1000))
    with Instance(tmp_path / "data", **environment, FELTDB_REQUEST_DEADLINE_MS=deadline) as running:
        running.start_server()
        yield running


def body(name: str) -> dict[str, Any]:
    return {"transactionId": name, "operations": [{"collection": "held", "id": name, "value": {"n": 1}}]}


def test_a_commit_cut_off_by_its_deadline_is_told_unknown_and_its_id_settles_it(instance: Instance) -> None:
    key = instance.new_key("*")
    answers: dict[str, tuple[float, Any]] = {}

    def send(name: str) -> None:
        with instance.client(key) as client:
            began = time.monotonic()
            answer = client.post("/transactions", json=body(name))
            answers[name] = time.monotonic() - began, answer

    with instance.client(key) as client:
        assert client.post("/transactions", json=body("first")).status_code == 201
        (pid,) = children(instance)
        segment = min((instance.data_dir / "namespaces/default/log").glob("*.seg"))  # the first is written now
        threads = [threading.Thread(target=send, args=(f"held-{number}",)) for number in range(AT_ONCE)]
        with Injection(pid, segment, DATA_SYNC, f"delay_enter={int(HELD_S * 1e6)}"):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(40)
        assert len(answers) == AT_ONCE
        told = sorted((answer.status_code, round(took, 1)) for took, answer in answers.values())
        print(told)
        cut_off = {name: each for name, each in answers.items() if each[1].status_code == 503}
        assert len(cut_off) >= 2, f"whoever forces is told the truth late, the others their deadline: {told}"
        for name, (took, answer) in cut_off.items():
            assert DEADLINE_S * 0.9 < took < HELD_S, told
            said = answer.json()
            assert (said["code"], said["committed"], said["transactionId"]) == ("COMMIT_UNKNOWN", "unknown", name)
            assert answer.headers["Retry-After"] == "1"
        for name, (_, answer) in answers.items():
            if name not in cut_off:
                assert (answer.status_code, answer.json()["status"]) == (201, "committed"), answer.text
            settled = client.get(f"/transactions/{name}")
            assert (settled.status_code, settled.json()["status"]) == (200, "committed")
            again = client.post("/transactions", json=body(name))
            assert (again.status_code, again.json()["duplicate"]) == (200, True)
            assert client.get(f"/collections/held/{name}").json()["version"] == 1, "once"
