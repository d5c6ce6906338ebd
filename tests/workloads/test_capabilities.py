"""Registration, and the built-in programs over a real store."""

from dataclasses import replace

import pytest

from apps.keys.services import ensure_namespace
from apps.state import stores
from apps.workloads import capabilities, services
from apps.workloads.builtin import identity, search
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Workload
from apps.workloads.running import Running
from feltdb_engine import Mutation, Store
from feltdb_engine.errors import DeadlineExceeded, IdempotencyConflict
from tests.workloads.conftest import NAMESPACE

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(command):
    """What a program sees: a claim of real work in a namespace with a few records."""
    ensure_namespace(NAMESPACE)
    rows = [("a", {"city": "Lisboa"}), ("b", {"city": "Porto", "note": "near LISBOA"}), ("c", {"city": "Faro"})]
    stores.store(NAMESPACE).commit(
        [Mutation(kind="insert", collection="places", id=key, value=value) for key, value in rows]
    )
    work = services.admit(command(), now_ms=now_ms()).workload
    claim = services.claim(
        ClaimById(namespace=NAMESPACE, workload_id=work.workload_id, worker_id="w", principal="worker:w"),
        now_ms=now_ms(),
    )
    yield Running(claim, 30_000)
    stores.close_all()


def test_a_program_is_found_under_its_name_and_a_name_is_taken_once(monkeypatch):
    monkeypatch.setattr(capabilities, "_registry", dict(capabilities._registry))

    def program(input, context):
        return 1

    capabilities.capability("a.b-c_1")(program)
    capabilities.capability("a.b-c_1")(program)
    found = capabilities.find("a.b-c_1")
    assert found is not None and found.program is program and "a.b-c_1" in capabilities.names()
    with pytest.raises(ValueError, match="two programs"):
        capabilities.capability("a.b-c_1")(lambda input, context: 2)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 129, "é"])
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValueError, match="no capability name"):
        capabilities.capability(name)


def test_the_built_in_programs_are_there_without_being_asked_for():
    assert {"identity", "search"} <= capabilities.names()


def test_identity_gives_back_its_input(context):
    assert identity({"a": [1.0]}, context) == {"a": [1.0]}


def test_search_finds_a_text_anywhere_in_a_record_whatever_its_case(context):
    found = search({"collection": "places", "query": "lisboa"}, context)
    assert found == [{"id": "a", "city": "Lisboa"}, {"id": "b", "city": "Porto", "note": "near LISBOA"}]
    assert search({"collection": "places", "query": "lisboa", "limit": 1}, context) == found[:1]
    assert search({"collection": "nowhere", "query": "x"}, context) == []


def test_search_reads_on_over_many_pages(context):
    store = stores.store(NAMESPACE)
    for start in range(0, 1_200, 400):
        store.commit(
            [
                Mutation(kind="insert", collection="many", id=f"{number:05}", value={"n": number})
                for number in range(start, start + 400)
            ]
        )
    assert [row["n"] for row in search({"collection": "many", "query": '"n":1199'}, context)] == [1199]
    context.give_up()
    with pytest.raises(Cancelled):
        search({"collection": "many", "query": "nothing has this"}, context)


@pytest.mark.parametrize(
    "input",
    [
        None,
        [],
        {},
        {"collection": "places"},
        {"collection": "places", "query": ""},
        {"collection": "places", "query": "x" * 513},
        {"collection": "places", "query": "x", "limit": 0},
        {"collection": "places", "query": "x", "limit": 501},
        {"collection": "places", "query": "x", "limit": True},
    ],
)
def test_search_refuses_what_it_cannot_look_for(context, input):
    with pytest.raises(Failed) as refused:
        search(input, context)
    assert refused.value.kind == "invalid_input"


def test_system_collections_are_closed_to_programs_by_every_read(context):
    reads = [
        lambda: context.get("_flow_capabilities", "x"),
        lambda: context.page("_x"),
        lambda: context.query("_x"),
        lambda: search({"collection": "_flow_capabilities", "query": "x"}, context),
    ]
    for read in reads:
        with pytest.raises(Failed) as refused:
            read()
        assert refused.value.kind == "collection_denied"


def test_a_program_reads_records_of_its_own_namespace(context):
    record = context.get("places", "c")
    assert record is not None and record.value == {"city": "Faro"} and context.get("places", "z") is None
    assert [row.id for row in context.query("places", where={"field": "city", "op": "eq", "value": "Porto"})] == ["b"]
    assert (context.attempt, context.namespace, context.deadline_at_ms) == (1, NAMESPACE, None)


def test_a_heartbeat_by_the_program_extends_the_lease_and_tells_of_a_lost_claim(context):
    before = context.expires_at_ms
    context.heartbeat()
    assert context.expires_at_ms >= before and not context.cancelled()
    services.cancel(NAMESPACE, context.workload_id, actor="human:ada", now_ms=now_ms())
    with pytest.raises(Cancelled):
        context.heartbeat()
    lost = Running(replace(context.claim, fencing_token=9), 30_000)
    with pytest.raises(Cancelled):
        lost.heartbeat()
    assert lost.lost == "WORKLOAD_STALE_FENCE"


PUT = [Mutation(kind="put", collection="parcels", id="7", value={"weight": 3})]


def take_over(context, *, lease_ms=30_000):
    """End the claim as a lost lease does, and return what the next attempt sees."""
    Workload.objects.update(heartbeat_at_ms=0, lease_expires_at_ms=1, due_at_ms=1)
    services.sweep(now_ms=now_ms())
    Workload.objects.update(eligible_at_ms=0)
    return Running(
        services.claim(
            ClaimById(namespace=NAMESPACE, workload_id=context.workload_id, worker_id="w2", principal="worker:w2"),
            now_ms=now_ms(),
        ),
        lease_ms,
    )


def test_a_step_is_committed_once_in_the_name_of_its_attempt_however_many_attempts_come_there(context):
    first = context.commit("weigh", PUT)
    assert first.transaction_id == f"work:{context.workload_id}:weigh" and not first.duplicate
    [operation] = [each for each in stores.store(NAMESPACE).changes(None).operations if each.collection == "parcels"]
    assert operation.actor.workload_id == context.workload_id and operation.actor.subject == "worker:w"
    assert operation.actor.request_id == f"attempt_{context.workload_id}_1", "the attempt's name carries its fence"
    successor = take_over(context)
    again = successor.commit("weigh", PUT)
    assert again.duplicate and (again.revision, again.sequences) == (first.revision, first.sequences)
    record = successor.get("parcels", "7")
    assert record is not None and record.version == 1


def test_a_step_known_with_other_content_is_a_conflict(context):
    context.commit("weigh", PUT)
    other = [replace(PUT[0], value={"weight": 4})]
    with pytest.raises(IdempotencyConflict) as refused:
        take_over(context).commit("weigh", other)
    assert refused.value.code == "IDEMPOTENCY_CONFLICT"
    assert stores.store(NAMESPACE).get("parcels:7").value == {"weight": 3}


def test_who_lost_the_claim_writes_nothing(context):
    successor = take_over(context)
    with pytest.raises(Cancelled):
        context.commit("weigh", PUT)
    assert context.lost == "WORKLOAD_STALE_FENCE" and stores.store(NAMESPACE).get("parcels:7") is None
    successor.commit("weigh", PUT)


@pytest.mark.parametrize("step", ["", "a b", "x" * 129, "é"])
def test_a_step_has_a_plain_name(context, step):
    with pytest.raises(ValueError, match="names no step"):
        context.commit(step, PUT)


def test_a_program_does_not_write_system_collections(context):
    with pytest.raises(Failed) as refused:
        context.commit("a", [replace(PUT[0], collection="_flow_capabilities")])
    assert refused.value.kind == "collection_denied"


def test_a_write_that_found_no_turn_or_whose_outcome_is_unknown_is_tried_again_by_a_later_attempt(context, monkeypatch):
    for error in (DeadlineExceeded("late"), DeadlineExceeded("late", committed="unknown")):

        def refuse(*args, error=error, **kwargs):
            raise error

        monkeypatch.setattr(Store, "commit", refuse)
        with pytest.raises(Failed) as failed:
            context.commit("weigh", PUT)
        assert failed.value.kind == "transient_connection"


def test_a_program_keeps_and_reads_checkpoints_and_learns_that_it_is_to_give_up(context):
    services.start(context.claim.fence, now_ms=now_ms())
    assert context.checkpoints() == []
    context.checkpoint({"done": 1})
    successor = take_over(context)
    assert successor.checkpoints() == [{"done": 1}]
    for late in (lambda: context.checkpoint(2), lambda: context.checkpoints()):
        with pytest.raises(Cancelled):
            late()
    services.start(successor.claim.fence, now_ms=now_ms())
    with pytest.raises(WorkloadError):
        successor.checkpoint({"password": "x"})
    assert not successor.cancelled(), "what it gave was refused, the claim is still its own"
    services.cancel(NAMESPACE, context.workload_id, actor="human:ada", now_ms=now_ms())
    with pytest.raises(Cancelled):
        successor.checkpoint(2)
    assert successor.cancel_requested and successor.lost is None
