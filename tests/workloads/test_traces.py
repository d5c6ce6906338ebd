"""The caller's place in a trace (`traceparent`) goes with the work that it asks for, and on into what that does."""

import pytest

from apps.keys.services import ensure_namespace
from apps.state import stores
from apps.workloads import services
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById
from apps.workloads.isolation import parent
from apps.workloads.isolation.child import ChildContext
from apps.workloads.running import Running
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE
from tests.workloads.test_api import PATH, create, fits

TRACED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


def traced(api, key="k1", given=TRACED):
    body = {"definition_id": "identity", "idempotency_key": key, "input": {"n": 1}}
    return api.post_json(PATH, body, headers={"traceparent": given})


def test_work_shows_the_place_of_the_request_that_asked_for_it_and_so_does_its_claim(api, make_key):
    client, worker = api(), api(make_key(worker_id="w1", scopes=["workload:claim"]))
    made = fits("Workload", traced(client).json())
    assert made["traceparent"] == TRACED
    assert fits("Workload", client.get(f"{PATH}/{made['workload_id']}").json())["traceparent"] == TRACED
    assert client.get(PATH).json()["workloads"][0]["traceparent"] == TRACED
    [claimed] = worker.post_json(f"{PATH}/claim", {"worker_id": "w1", "capabilities": ["identity"]}).json()["claims"]
    assert fits("WorkloadClaim", claimed)["traceparent"] == TRACED


@pytest.mark.parametrize("given", ["", "nonsense", TRACED.upper(), f"{TRACED}-more"])
def test_what_is_no_place_in_a_trace_is_passed_over(api, given):
    assert traced(api(), given=given).json()["traceparent"] is None


def test_work_asked_for_without_one_has_none(api):
    assert create(api()).json()["traceparent"] is None


def test_the_same_request_from_elsewhere_in_a_trace_is_the_same_work(api):
    client = api()
    first, again = traced(client), traced(client, given=OTHER)
    assert again["Idempotent-Replay"] == "true"
    assert again.json() == first.json() and again.json()["traceparent"] == TRACED


def test_work_asked_for_again_has_the_place_of_whoever_asks_again(api):
    client = api()
    made = traced(client).json()["workload_id"]
    client.post_json(f"{PATH}/{made}/cancel", {})
    again = client.post_json(f"{PATH}/{made}/resubmit", {"idempotency_key": "k2"}, headers={"traceparent": OTHER})
    assert (again.status_code, again.json()["traceparent"]) == (201, OTHER)


@pytest.fixture
def context(db, command):
    ensure_namespace(NAMESPACE)
    work = services.admit(command(traceparent=TRACED), now_ms=now_ms()).workload
    wanted = ClaimById(namespace=NAMESPACE, workload_id=work.workload_id, worker_id="w", principal="worker:w")
    yield Running(services.claim(wanted, now_ms=now_ms()), 30_000)
    stores.close_all()


def test_what_a_program_writes_is_in_the_same_trace(context):
    context.commit("step", [Mutation(kind="put", collection="done", id="1", value={})])
    [operation] = stores.store(NAMESPACE).changes(None, limit=1).operations
    assert (operation.actor.workload_id, operation.actor.traceparent) == (context.workload_id, TRACED)


def test_a_program_in_a_process_of_its_own_knows_its_place_too(context):
    assert ChildContext(None, parent._order({}, context)).traceparent == TRACED
