"""Work runs under a grant and dies with it: made, claimed, armed again and reading, in process and over HTTP."""

import pytest
from django.db import connection

from apps.keys import services as keys
from apps.keys.grants import services as grants
from apps.keys.grants import standing
from apps.keys.grants.form import Constraints, GrantSubject, Resource
from apps.keys.grants.models import IssuedGrant
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from apps.state import stores
from apps.workloads import services
from apps.workloads.capabilities import Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, ClaimNext
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Workload
from apps.workloads.running import Running
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE, history_of, state_of

pytestmark = pytest.mark.django_db

PATH = "/v1/workloads"
ROOT = operator("root")
HOUR_S = 3600


def create(client, key="k1", **members):
    return client.post_json(PATH, {"definition_id": "identity", "idempotency_key": key, "input": {"n": 1}, **members})


def next_of(worker="w1", **members):
    command = ClaimNext(
        namespace=NAMESPACE,
        worker_id=worker,
        principal=f"worker:{worker}",
        capabilities=frozenset({"identity"}),
        **{"max": 100, **members},
    )
    return services.claim_next(command, now_ms=now_ms())


def by_id(workload_id, worker="w1"):
    command = ClaimById(namespace=NAMESPACE, workload_id=workload_id, worker_id=worker, principal=f"worker:{worker}")
    return services.claim(command, now_ms=now_ms())


@pytest.fixture
def maker(make_key):
    """A key that may make, read and retry work, and read state."""
    return make_key(scopes=["workload:create", "workload:read", "workload:retry", "state:read", "grants:write"])


def grant_of(maker, **members):
    principal = principal_for(maker.key)
    now_s = now_ms() // 1000
    asked = {
        "tenant_id": NAMESPACE,
        "application_id": "default",
        "subject": GrantSubject("service", maker.key.id),
        "capabilities": ["workload:create", "state:read"],
        "scopes": [Resource("RESOURCE_PREFIX", "flow://default/workloads")],
        "expires_at": now_s + HOUR_S,
        "now_ms": now_ms(),
        **members,
    }
    return grants.issue(principal, **asked)


def test_work_that_names_no_grant_carries_its_callers_own_and_shares_it(api, maker):
    client = api(maker)
    ids = {create(client, key).json()["grant_id"] for key in ("k1", "k2", "k3")}
    (grant_id,) = ids
    row = IssuedGrant.objects.get(grant_id=grant_id)
    grant = row.signed().grant
    assert (grant.subject.kind, grant.subject.id) == ("service", maker.key.id)
    assert grant.capabilities == frozenset(maker.key.scopes)
    assert create(client, "k4", application_id="other").json()["grant_id"] != grant_id


@pytest.mark.parametrize("ended_by", ["the key", "the grant"])
def test_work_whose_authority_ended_is_never_claimed_and_dies_saying_so(api, maker, ended_by):
    client = api(maker)
    dying = [create(client, f"k{n}").json() for n in range(3)]
    if ended_by == "the key":
        keys.revoke_key(maker.key.id, by=ROOT)
    else:
        grants.revoke(dying[0]["grant_id"], ROOT, tenant_id=NAMESPACE, now_ms=now_ms())
    with pytest.raises(WorkloadError) as refused:
        by_id(dying[0]["workload_id"])
    assert (refused.value.code, refused.value.status) == ("WORKLOAD_UNAUTHORIZED", 403)
    assert refused.value.details == {"grant_code": "GRANT_REVOKED"}
    assert next_of() == []
    for work in dying:
        assert state_of(work["workload_id"]) == "DEAD_LETTER"
        assert history_of(work["workload_id"])[-1] == ("READY", "DEAD_LETTER")
        row = Workload.objects.get(workload_id=work["workload_id"])
        assert row.last_failure.startswith("GRANT_REVOKED: ") and row.attempt_count == 0
    with pytest.raises(WorkloadError) as refused:
        services.retry(NAMESPACE, dying[0]["workload_id"], actor="human:root", now_ms=now_ms())
    assert refused.value.code == "WORKLOAD_UNAUTHORIZED" and state_of(dying[0]["workload_id"]) == "DEAD_LETTER"


def test_dead_authority_stands_in_nobodys_way(api, maker, make_key, make_work):
    revoked = [create(api(maker), f"k{n}").json() for n in range(2)]
    alive = create(api(make_key()), "living").json()["workload_id"]
    own = make_work("own").workload_id
    keys.revoke_key(maker.key.id, by=ROOT)
    assert {claim.workload_id for claim in next_of()} == {alive, own}
    assert all(state_of(work["workload_id"]) == "DEAD_LETTER" for work in revoked)


def test_authority_that_expires_ends_at_its_instant(api, maker):
    end_ms = (now_ms() // 1000 + 2) * 1000
    signed = grant_of(maker, expires_at=end_ms // 1000).signed()
    work = create(api(maker), authorization_snapshot=signed.wire()).json()
    assert standing.refusal(NAMESPACE, work["grant_id"], now_ms=end_ms - 1) is None
    ended = standing.refusal(NAMESPACE, work["grant_id"], now_ms=end_ms)
    assert ended is not None and ended.code == "GRANT_EXPIRED"


def test_a_named_grant_is_verified_before_anything_is_stored(api, maker, make_key):
    client = api(maker)
    signed = grant_of(maker).signed().wire()
    stranger = grant_of(maker, subject=GrantSubject("service", "somebody-else")).signed().wire()
    weak = grant_of(maker, capabilities=["state:read"]).signed().wire()
    elsewhere = grant_of(maker, scopes=[Resource("RESOURCE_PREFIX", "flow://default/state/orders")]).signed().wire()
    tampered = {**signed, "grant": {**signed["grant"], "expires_at": signed["grant"]["expires_at"] + 1}}
    for bad in (stranger, weak, elsewhere, tampered, {"grant": signed["grant"]}):
        answer = create(client, authorization_snapshot=bad)
        assert (answer.status_code, answer.json()["code"]) == (403, "WORKLOAD_UNAUTHORIZED"), answer.content
    assert not Workload.objects.exists()
    made = create(client, authorization_snapshot=signed)
    assert made.status_code == 201 and made.json()["grant_id"] == signed["grant"]["id"]


def test_a_constraint_on_the_environment_holds_for_work(api, maker):
    signed = grant_of(maker, constraints=Constraints(environments=frozenset({"staging"}))).signed().wire()
    assert create(api(maker), authorization_snapshot=signed).status_code == 403
    assert create(api(maker), authorization_snapshot=signed, environment="staging").status_code == 201


@pytest.mark.parametrize("revoked", [False, True])
def test_a_program_reads_what_the_works_grant_covers_and_nothing_else(api, make_key, revoked):
    maker = make_key(scopes=["workload:create", "state:read"], collections=["places"])
    keys.ensure_namespace(NAMESPACE)
    stores.store(NAMESPACE).commit(
        [Mutation(kind="insert", collection=name, id="a", value={"n": 1}) for name in ("places", "secrets")]
    )
    try:
        work = create(api(maker)).json()
        claim = by_id(work["workload_id"])
        context = Running(claim, 30_000)
        if revoked:
            keys.revoke_key(maker.key.id, by=ROOT)
        else:
            found = context.get("places", "a")
            assert found is not None and found.value == {"n": 1}
        for read in (
            lambda: context.get("secrets", "a"),
            lambda: context.query("secrets"),
            lambda: context.page("secrets"),
        ):
            with pytest.raises(Failed) as refused:
                read()
            assert refused.value.kind == "authorization_denied"
        with pytest.raises(Failed) as refused:  # it may read there, and not write
            context.commit("s1", [Mutation(kind="put", collection="places", id="b", value={"n": 2})])
        assert refused.value.kind == "authorization_denied"
        if revoked:
            with pytest.raises(Failed):
                context.get("places", "a")
    finally:
        stores.close_all()


def test_what_holds_is_remembered_until_anything_is_revoked(api, maker, make_key, django_assert_num_queries):
    work = create(api(maker)).json()
    at = now_ms()
    standing.forget_all()
    assert standing.refusal(NAMESPACE, work["grant_id"], now_ms=at) is None
    if connection.vendor == "sqlite":
        with django_assert_num_queries(0):
            assert standing.refusal(NAMESPACE, work["grant_id"], now_ms=at) is None
    keys.revoke_key(make_key().key.id, by=ROOT)
    assert standing.refusal(NAMESPACE, work["grant_id"], now_ms=at) is None
    keys.revoke_key(maker.key.id, by=ROOT)
    ended = standing.refusal(NAMESPACE, work["grant_id"], now_ms=at)
    assert ended is not None and ended.code == "GRANT_REVOKED"


def test_what_a_triggers_work_writes_names_the_trigger_and_no_caller_can_claim_to_be_one(api, maker, make_work):
    answer = create(api(maker), trigger="state_change:orders")
    assert answer.status_code == 400 and answer.json()["details"]["pointer"] == "/trigger"
    keys.ensure_namespace(NAMESPACE)
    try:
        claim = by_id(make_work(trigger="state_change:orders").workload_id)
        Running(claim, 30_000).commit("s1", [Mutation(kind="put", collection="places", id="b", value={"n": 2})])
        (operation,) = stores.store(NAMESPACE).changes(stores.store(NAMESPACE).start()).operations
        assert (operation.actor.trigger_id, operation.actor.workload_id) == ("orders", claim.workload_id)
    finally:
        stores.close_all()
