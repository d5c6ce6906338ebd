"""Registered workers: incarnations, heartbeats, capacity in the claim, draining, recovery (M1 to M5)."""

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from apps.keys.audit.models import AuditEvent
from apps.keys.grants import resources
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.services import issue, revoke
from apps.keys.principal import operator
from apps.workloads import limits
from apps.workloads.commands import ClaimNext, Completion, ReportedClaim, RetryPolicy, WorkerRegistration
from apps.workloads.errors import WorkloadError
from apps.workloads.lifecycle import HEARTBEAT_TIMEOUT_MS, Health
from apps.workloads.models import RegisteredWorker, Workload
from apps.workloads.services import cancel, claim_next, complete, detect_silence, placement, registry, sweep
from tests.workloads.conftest import NAMESPACE, history_of, state_of
from tests.workloads.test_api import PATH, create, fits
from tests.workloads.test_lifecycle import refusal

pytestmark = pytest.mark.django_db

ADA = operator("ada")
WORKERS = "/v1/workers"


@pytest.fixture
def register(clock):
    """A function that registers a worker which shows life at once, unless `beat=False`."""

    def make(worker_id="w1", *, beat=True, capabilities=("identity",), **members):
        command = WorkerRegistration(
            namespace=NAMESPACE, worker_id=worker_id, capabilities=frozenset(capabilities), **members
        )
        worker = registry.register(command, by=ADA, now_ms=clock.ms)
        return show_life(worker, clock).worker if beat else worker

    return make


def show_life(worker, clock, *, claims=(), health=Health.HEALTHY, extend_ms=None):
    return registry.heartbeat(
        worker.namespace,
        worker.worker_id,
        incarnation_id=worker.incarnation_id,
        health=health,
        claims=[reported(each) for each in claims],
        extend_ms=extend_ms,
        now_ms=clock.ms,
    )


def reported(claim):
    return ReportedClaim(workload_id=claim.workload_id, claim_id=claim.claim_id, fencing_token=claim.fencing_token)


def next_claims(clock, worker="w1", most=10, capabilities=("identity",)):
    return claim_next(
        ClaimNext(
            namespace=NAMESPACE,
            worker_id=worker,
            principal=f"worker:{worker}",
            capabilities=frozenset(capabilities),
            max=most,
        ),
        now_ms=clock.ms,
    )


def standings(beat):
    return [each.standing for each in beat.claims]


def lifecycle_of(worker):
    return RegisteredWorker.objects.get(pk=worker.pk).lifecycle


def test_registration_intersects_capabilities_and_lifecycle_is_strict(register, namespace, make_work, take, clock):
    """M1: of what a worker declares it is granted what its grant names; a grant that names none of it is refused."""
    where = resources.address("default", "workers", "w1")
    grant = issue(
        ADA,
        tenant_id=NAMESPACE,
        application_id="default",
        subject=GrantSubject("worker", "w1"),
        capabilities=["worker:capability:identity"],
        scopes=[Resource("RESOURCE_PREFIX", where)],
        expires_at=clock.ms // 1000 + 3_600,
        now_ms=clock.ms,
    )
    signed = grant.signed().wire()
    worker = register(capabilities=("identity", "search"), grant=signed, beat=False)
    assert worker.declared_capabilities == ["identity", "search"] and worker.granted_capabilities == ["identity"]
    for stranger in ({"capabilities": ("search",)}, {"worker_id": "w2"}):
        with refusal("WORKER_UNAUTHORIZED"):
            register(grant=signed, **stranger)
    with refusal("MESH_PLACEMENT_DENIED"):
        next_claims(clock)  # it has not shown life yet
    show_life(worker, clock)
    search, identity = make_work("s", definition_id="search"), make_work("i")
    with refusal("MESH_PLACEMENT_DENIED"):
        take(search)
    assert [claim.workload_id for claim in next_claims(clock, capabilities=("identity", "search"))] == [
        identity.workload_id
    ]
    with refusal("WORKER_TRANSITION_DENIED"):
        registry.recover(NAMESPACE, "w1", by=ADA, now_ms=clock.ms)
    revoke(grant.grant_id, ADA, tenant_id=NAMESPACE, now_ms=clock.ms)
    with refusal("MESH_PLACEMENT_DENIED"):
        next_claims(clock)


def test_releasing_a_claim_twice_frees_capacity_once(register, make_work, run, clock):
    """M2: capacity is counted from the work, so nothing can be released at all, let alone twice."""
    worker = register(concurrency=1)
    work = make_work("a")
    make_work("b")
    claim = run(work)
    assert placement.active(worker) == 1 and next_claims(clock) == []
    for _ in range(2):
        complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert placement.active(worker) == 0
    assert len(next_claims(clock)) == 1 and next_claims(clock) == []


def test_a_claim_recovered_by_another_is_released_and_not_its_own_any_more(register, make_work, run, clock):
    """M3, M4: the worker stays READY; whether it lives is told by its own heartbeat alone."""
    worker = register(concurrency=1)
    lost = run(make_work(retry_policy=RetryPolicy(initial_delay_ms=0)), lease_ms=1_000)
    clock.pass_ms(1_000)
    sweep(now_ms=clock.ms)
    beat = show_life(worker, clock, claims=[lost])
    assert standings(beat) == ["lost"] and beat.worker.lifecycle == "READY" and placement.active(worker) == 0
    assert len(next_claims(clock)) == 1


def test_placement_claim_fencing_failure_and_recovery(register, make_work, run, clock):
    """M5: a silent worker is OFFLINE, gets nothing, must be recovered, and its old claim is fenced."""
    worker = register()
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=0))
    old = run(work, lease_ms=60_000)
    clock.pass_ms(HEARTBEAT_TIMEOUT_MS - 1)
    assert detect_silence(now_ms=clock.ms) == []
    clock.pass_ms(1)
    assert [each.worker_id for each in detect_silence(now_ms=clock.ms)] == ["w1"]
    assert detect_silence(now_ms=clock.ms) == [] and lifecycle_of(worker) == "OFFLINE"
    assert state_of(work) == "RUNNING", "its work is left to its lease"
    with refusal("MESH_PLACEMENT_DENIED"):
        next_claims(clock)
    with refusal("WORKER_RECOVERY_REQUIRED"):
        show_life(worker, clock)
    with refusal("WORKER_RECOVERY_REQUIRED"):
        registry.reconcile(NAMESPACE, "w1", incarnation_id=worker.incarnation_id, claims=[], now_ms=clock.ms)
    clock.pass_ms(60_000)
    sweep(now_ms=clock.ms)
    other = run(work, "other")
    assert registry.recover(NAMESPACE, "w1", by=ADA, now_ms=clock.ms).lifecycle == "RECOVERING"
    found = registry.reconcile(
        NAMESPACE, "w1", incarnation_id=worker.incarnation_id, claims=[reported(old)], now_ms=clock.ms
    )
    assert (found.worker.lifecycle, standings(found)) == ("READY", ["lost"]), "told to stop though a successor runs it"
    with refusal("WORKLOAD_STALE_FENCE"):
        complete(old.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    complete(other.fence, Completion(result_id="r", output=1), now_ms=clock.ms)


def test_a_restart_under_the_same_name_is_another_worker_and_gives_back_at_once(register, make_work, run, clock):
    before = register(concurrency=2)
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=0))
    claim = run(work, lease_ms=3_600_000)
    cancelled = make_work("c")
    run(cancelled, lease_ms=3_600_000)
    cancel(NAMESPACE, cancelled.workload_id, actor="human:ada", now_ms=clock.ms)
    clock.pass_ms(10)
    now = register(concurrency=2)
    assert now.pk == before.pk and now.incarnation_id != before.incarnation_id
    assert history_of(work)[-2:] == [("RUNNING", "RECOVERING"), ("RECOVERING", "READY")]
    assert state_of(cancelled) == "CANCELLATION_REQUESTED", "it ends with its grace"
    with refusal("WORKLOAD_CLAIM_INVALID"):
        complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    for ask, code in (
        (lambda: show_life(before, clock), "WORKER_HEARTBEAT_REJECTED"),
        (
            lambda: registry.reconcile(
                NAMESPACE, "w1", incarnation_id=before.incarnation_id, claims=[], now_ms=clock.ms
            ),
            "WORKER_RECONCILIATION_DENIED",
        ),
    ):
        with pytest.raises(WorkloadError) as refused:
            ask()
        assert refused.value.code == code and refused.value.details == {"incarnation_id": now.incarnation_id}
    assert len(next_claims(clock)) == 1


def test_one_heartbeat_extends_every_lease_and_tells_of_each(register, make_work, run, take, clock):
    worker = register(concurrency=9)
    held, dropped, timed, told = (run(make_work(name), lease_ms=5_000) for name in ("a", "b", "c", "d"))
    fresh = take(make_work("e"), lease_ms=5_000)
    stranger = run(make_work("f"), "other", lease_ms=5_000)
    cancel(NAMESPACE, told.workload_id, actor="human:ada", now_ms=clock.ms, grace_ms=9_000)
    Workload.objects.filter(workload_id=dropped.workload_id).update(lease_expires_at_ms=clock.ms + 1_000)
    clock.pass_ms(1_000)
    claims = [held, dropped, told, fresh, stranger, timed]
    beat = show_life(worker, clock, claims=claims, extend_ms=30_000)
    assert standings(beat) == ["held", "lost", "cancel", "held", "lost", "held"]
    assert beat.claims[0].expires_at_ms == clock.ms + 30_000
    assert beat.claims[2].cancel_deadline_at_ms == clock.ms + 8_000
    rows = {row.workload_id: row for row in Workload.objects.all()}
    assert (
        rows[held.workload_id].lease_expires_at_ms == rows[fresh.workload_id].lease_expires_at_ms == clock.ms + 30_000
    )
    assert rows[stranger.workload_id].lease_expires_at_ms == clock.ms + 4_000
    assert rows[held.workload_id].due_at_ms == clock.ms + 30_000


def test_a_draining_worker_gets_nothing_finishes_and_is_offline(register, make_work, run, clock):
    worker = register(concurrency=5)
    claim = run(make_work("a"))
    make_work("b")
    for _ in range(2):
        assert registry.drain(NAMESPACE, "w1", by=ADA, now_ms=clock.ms, reason="update").lifecycle == "DRAINING"
    with refusal("MESH_PLACEMENT_DENIED"):
        next_claims(clock)
    assert show_life(worker, clock, claims=[claim]).worker.lifecycle == "DRAINING"
    found = registry.reconcile(
        NAMESPACE, "w1", incarnation_id=worker.incarnation_id, claims=[reported(claim)], now_ms=clock.ms
    )
    assert found.worker.lifecycle == "DRAINING", "reconciling does not bring it back"
    complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert show_life(worker, clock).worker.lifecycle == "OFFLINE"
    assert list(AuditEvent.objects.filter(action="worker.drain").values_list("reason", flat=True)) == ["update"]


def test_reconciling_tells_a_claimed_attempt_to_go_on_and_names_what_was_forgotten(register, take, make_work, clock):
    worker = register(concurrency=5)
    known, forgotten = take(make_work("a")), take(make_work("b"))
    found = registry.reconcile(
        NAMESPACE, "w1", incarnation_id=worker.incarnation_id, claims=[reported(known)], now_ms=clock.ms
    )
    assert standings(found) == ["held"]
    assert [each.workload_id for each in found.unreported] == [forgotten.workload_id]


def test_capacity_and_kinds_are_held_to_by_every_claim_and_batch(register, make_work, take, clock):
    register(concurrency=3, workload_kinds=frozenset({"identity"}), capabilities=("identity", "search"))
    works = [make_work(f"k{number}") for number in range(5)]
    other = make_work("s", definition_id="search")
    assert len(next_claims(clock, most=2)) == 2
    assert len(next_claims(clock, most=9, capabilities=("identity", "search"))) == 1
    assert next_claims(clock) == []
    for work, message in ((works[4], "no capacity"), (other, "kind")):
        with pytest.raises(WorkloadError, match=message) as refused:
            take(work)
        assert refused.value.code == "MESH_PLACEMENT_DENIED"
    take(other, "unregistered")
    assert Workload.objects.filter(worker_id="w1").count() == 3


def test_a_worker_that_is_not_well_gets_nothing(register, make_work, clock):
    worker = register()
    make_work()
    show_life(worker, clock, health=Health.DEGRADED)
    with refusal("MESH_PLACEMENT_DENIED"):
        next_claims(clock)
    show_life(worker, clock)
    assert len(next_claims(clock)) == 1


def test_a_worker_of_one_namespace_is_none_of_anothers(register, make_work, take, clock):
    """Workers of one name in two namespaces are two workers, and neither is held to the other's capacity."""
    register(concurrency=1)
    registry.register(
        WorkerRegistration(namespace="other", worker_id="w1", capabilities=frozenset()), by=ADA, now_ms=clock.ms
    )
    assert RegisteredWorker.objects.count() == 2
    elsewhere = make_work("o", namespace="other")
    with refusal("MESH_PLACEMENT_DENIED"):
        take(elsewhere, namespace="other")
    assert len({row.incarnation_id for row in RegisteredWorker.objects.all()}) == 2
    make_work()
    assert len(next_claims(clock)) == 1


def test_eligible_workers_are_those_with_room_least_loaded_first(register, make_work, run, clock):
    for name, concurrency in (("b", 2), ("a", 2), ("full", 1), ("big", 9)):
        register(name, concurrency=concurrency)
    register("other", capabilities=("search",))
    register("new", beat=False)
    run(make_work("x"), "full")
    run(make_work("y"), "big")
    found = placement.eligible(NAMESPACE, make_work("z").workload_id, now_ms=clock.ms)
    assert [each.worker.worker_id for each in found] == ["a", "b", "big"]


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"concurrency": 0}, "/capacity/concurrency"),
        ({"concurrency": limits.MAX_WORKER_CONCURRENCY + 1}, "/capacity/concurrency"),
        ({"worker_id": " "}, "/worker_id"),
        ({"capabilities": ("",)}, "/capabilities"),
        ({"workload_kinds": frozenset({" "})}, "/workload_kinds"),
    ],
)
def test_what_cannot_be_a_worker_is_refused(register, members, pointer):
    with pytest.raises(WorkloadError) as refused:
        register(**members)
    assert (refused.value.code, refused.value.details) == ("WORKER_INVALID", {"pointer": pointer})


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"lifecycle": "BUSY"}, "worker_lifecycle_is_known"),
        ({"health": "FINE"}, "worker_health_is_known"),
        ({"concurrency": 0}, "worker_capacity_is_bounded"),
        ({"concurrency": 10_001}, "worker_capacity_is_bounded"),
        ({"seen_at_ms": 0}, "worker_seen_since_registered"),
        ({"worker_id": ""}, "worker_is_named"),
    ],
)
def test_a_workers_row_cannot_be_made_to_lie(register, values, constraint):
    worker = register()
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        RegisteredWorker.objects.filter(pk=worker.pk).update(**values)


def test_where_a_worker_is_can_be_said_in_a_header_whatever_its_name(api):
    boss = api()
    for name in ("NX\u00a2\u0006\u00e2", "b?c#d", "\u4e16"):
        body = {"worker_id": name, "capabilities": ["identity"], "capacity": {"concurrency": 1}}
        answer = boss.post_json(f"{WORKERS}/register", body)
        assert answer.status_code == 201, answer.json()
        assert answer["Location"].isascii() and answer["Location"].isprintable() and " " not in answer["Location"]
        assert boss.get(answer["Location"]).json()["worker_id"] == name


def test_a_workers_life_over_http(api, make_key):
    own = api(
        make_key(worker_id="w1", scopes=["worker:register", "worker:heartbeat", "workload:claim", "workload:execute"])
    )
    boss = api()
    assert boss.get(f"{WORKERS}/w1").json()["code"] == "WORKER_NOT_FOUND"
    body = {"worker_id": "w1", "capabilities": ["identity"], "capacity": {"concurrency": 1}}
    answer = own.post_json(f"{WORKERS}/register", body)
    assert answer.status_code == 201 and answer["Location"] == f"{WORKERS}/w1"
    worker = fits("Worker", answer.json())
    assert worker["lifecycle"] == "REGISTERED"
    workload_id = create(boss).json()["workload_id"]
    incarnation = {"incarnation_id": worker["incarnation_id"]}
    assert fits("WorkerBeat", own.post_json(f"{WORKERS}/w1/heartbeat", incarnation).json())["claims"] == []
    listed = fits("WorkerList", boss.get(f"{PATH}/{workload_id}/eligible-workers").json())["workers"]
    assert [each["worker_id"] for each in listed] == ["w1"]
    [claim] = own.post_json(f"{PATH}/claim", {"worker_id": "w1", "capabilities": ["identity"]}).json()["claims"]
    assert boss.get(f"{WORKERS}/w1").json()["lifecycle"] == "BUSY"
    assert boss.get(f"{PATH}/{workload_id}/eligible-workers").json() == {"workers": []}
    named = {name: claim[name] for name in ("workload_id", "claim_id", "fencing_token")}
    beat = own.post_json(f"{WORKERS}/w1/heartbeat", {**incarnation, "claims": [named], "extend_ms": 60_000}).json()
    assert fits("WorkerBeat", beat)["claims"][0]["standing"] == "held"
    busy = boss.delete(f"{WORKERS}/w1")
    assert (busy.status_code, busy.json()["details"]) == (409, {"active": 1})
    reconciled = own.post_json(f"{WORKERS}/w1/reconcile", {**incarnation, "claims": []}).json()
    assert fits("WorkerReconciled", reconciled)["unreported"][0]["workload_id"] == workload_id
    assert boss.post_json(f"{WORKERS}/w1/drain", {"reason": "update"}).json()["lifecycle"] == "DRAINING"
    assert own.post_json(f"{WORKERS}/w1/drain", {}).status_code == 403
    fence = {"worker_id": "w1", "claim_id": claim["claim_id"], "fencing_token": claim["fencing_token"]}
    own.post_json(f"{PATH}/{workload_id}/start", fence)
    own.post_json(f"{PATH}/{workload_id}/complete", {**fence, "result_id": "r", "output": 1})
    assert own.post_json(f"{WORKERS}/w1/heartbeat", incarnation).json()["worker"]["lifecycle"] == "OFFLINE"
    assert boss.post_json(f"{WORKERS}/w1/recover").json()["lifecycle"] == "RECOVERING"
    page = fits("WorkerPage", boss.get(WORKERS, {"limit": 1}).json())
    assert [each["worker_id"] for each in page["workers"]] == ["w1"] and page["next_cursor"] is None
    assert boss.delete(f"{WORKERS}/w1").status_code == 204
    assert boss.get(f"{WORKERS}/w1").status_code == 404


def test_work_that_no_known_worker_can_run_is_told_apart_and_shown(namespace, register, make_work, run, clock, capsys):
    assert not placement.nobody_known(make_work("ours"))
    strange = make_work("strange", definition_id="pack")
    assert placement.nobody_known(strange)
    call_command("workload", "show", strange.workload_id, "--namespace", NAMESPACE)
    assert "no worker can run this: none known here runs pack" in capsys.readouterr().out
    other = make_work("taken", definition_id="pack")
    run(other)
    assert not placement.nobody_known(strange) and not placement.nobody_known(other), "somebody runs such work now"
    sweep(now_ms=clock.pass_ms(3_600_000))
    assert placement.nobody_known(strange)
    register("w2", capabilities=frozenset({"pack"}))
    assert not placement.nobody_known(strange)
