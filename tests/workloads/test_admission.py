"""One request, one workload: identity, replay, conflict, and what is refused at the door."""

from types import MappingProxyType

import pytest

from apps.workloads import identity, limits
from apps.workloads.commands import CreateWorkload, DependsOn, RetryPolicy, Subject, Timeouts
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Event, Workload
from apps.workloads.services import admit, admit_many, prepare

pytestmark = pytest.mark.django_db


def test_ids_are_those_of_the_reference(command):
    scope = {"tenant": "t", "application": "app", "requester_kind": "agent", "requester_id": "a1", "key": "done"}
    assert identity.workload_id(**scope) == "workload_3ae811f17c504652af3a94c5"
    assert identity.claim_id("w", 1, "a") != identity.claim_id("w", 2, "a")
    assert identity.claim_id("workload_3ae811f17c504652af3a94c5", 1, "a") == "claim_7db209eb4f86bcd108b6"
    assert prepare(command(input={"id": 1})).input_hash == (
        "037c9214eef74cc3887f3a4f085b4e17d76280dafd273b0ee160c09c4ba1cfd4"
    )


def test_idempotency_keys_are_bound_to_their_requester_and_request(command, clock):
    """W1."""
    first = admit(command(), now_ms=clock.ms)
    again = admit(command(), now_ms=clock.pass_ms(5))
    assert first.created and not again.created and again.workload.workload_id == first.workload.workload_id
    other = admit(command(requested_by=Subject(kind="service", id="another")), now_ms=clock.ms)
    assert other.created and other.workload.workload_id != first.workload.workload_id
    for changed in ({"input": {"n": 2}}, {"definition_id": "search"}):
        with pytest.raises(WorkloadError) as refused:
            admit(command(**changed), now_ms=clock.ms)
        assert refused.value.code == "CONFLICT" and refused.value.status == 409
        assert refused.value.details["reason"] == "IDEMPOTENCY_KEY_REUSED"
    assert Workload.objects.count() == 2


def test_an_unbound_authorization_snapshot_is_refused_before_any_replay(command, clock):
    """W1."""
    grant = {"subject": {"kind": "service", "id": "tests"}, "tenant_id": "test", "application_id": "default"}
    assert admit(command(authorization_snapshot={"grant": grant}), now_ms=clock.ms).created
    for wrong in (
        {"subject": {"kind": "human", "id": "tests"}},
        {"subject": {"kind": "service", "id": "other"}},
        {"tenant_id": "other"},
        {"application_id": "other"},
    ):
        with pytest.raises(WorkloadError) as refused:
            admit(command(authorization_snapshot={"grant": {**grant, **wrong}}), now_ms=clock.ms)
        assert refused.value.code == "WORKLOAD_UNAUTHORIZED"


def test_idempotency_scopes_cannot_be_made_to_coincide(command, clock):
    """W2. Neighbours in the scope that read alike, wherever the one ends and the next begins."""

    def scope(requester, key, application="a"):
        return command(key, application_id=application, requested_by=Subject(kind="service", id=requester))

    scopes = [
        *(scope(f"x{mark}k1", "k2") for mark in (":", "", "/", '","')),
        *(scope("x", f"k1{mark}k2") for mark in (":", "/", '","')),
        scope("xk", "1k2"),
        scope("service:y", "k", application="a"),
        scope("y", "k", application="a:service"),
        scope("k", "k", application="x:k1"),
        scope("k", "k1:k", application="x"),
    ]
    assert len({prepare(each).workload_id for each in scopes}) == len(scopes)
    assert all(admit(each, now_ms=clock.ms).created for each in scopes)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"definition_id": "other"}, ["definition_id"]),
        ({"definition_revision": "9"}, ["definition_revision"]),
        ({"environment": "staging"}, ["environment"]),
        ({"input": {"n": 1.0}}, ["input"]),
        ({"capability_snapshot": frozenset({"a"})}, ["capability_snapshot"]),
        ({"connection_scopes": frozenset({"c"})}, ["connection_scopes"]),
        ({"priority": 1}, ["priority"]),
        ({"retry_policy": RetryPolicy(max_attempts=4)}, ["retry_policy"]),
        ({"timeouts": Timeouts(queue_ms=5)}, ["timeouts"]),
        ({"when_unreachable": "cancel"}, ["when_unreachable"]),
        ({"not_before_at_ms": 9}, ["not_before_at_ms"]),
        ({"input": 2, "priority": 3, "environment": "e"}, ["environment", "input", "priority"]),
    ],
)
def test_a_replay_matches_only_an_equivalent_request_and_names_every_conflicting_field(command, clock, changed, field):
    """W3."""
    base = {"capability_snapshot": frozenset({"identity"})}
    admit(command(**base), now_ms=clock.ms)
    with pytest.raises(WorkloadError) as refused:
        admit(command(**{**base, **changed}), now_ms=clock.ms)
    assert refused.value.details["fields"] == field
    assert Workload.objects.count() == 1


def test_differing_dependencies_are_named_and_their_order_does_not_matter(command, clock):
    """W3."""
    one, two = (admit(command(key), now_ms=clock.ms).workload.workload_id for key in ("p1", "p2"))
    both = (DependsOn(workload_id=one), DependsOn(workload_id=two))
    assert admit(command("c", dependencies=both), now_ms=clock.ms).created
    assert not admit(command("c", dependencies=both[::-1]), now_ms=clock.ms).created
    with pytest.raises(WorkloadError) as refused:
        admit(command("c", dependencies=both[:1]), now_ms=clock.ms)
    assert refused.value.details["fields"] == ["dependencies"]


def test_what_says_the_same_is_the_same_request(command, clock):
    """W3: member order, an empty snapshot for the definition itself, and what is only told along."""
    admit(command(input={"a": 1, "b": [1, 2]}), now_ms=clock.ms)
    same = command(
        input={"b": [1, 2], "a": 1},
        capability_snapshot=frozenset({"identity"}),
        trigger="state_change:t1",
        session_id="s",
        not_before_at_ms=None,
    )
    assert not admit(same, now_ms=clock.ms).created


def test_a_replay_answers_the_work_as_it_stands_also_when_it_is_over(command, make_work, run, clock):
    from apps.workloads.commands import Completion
    from apps.workloads.services import complete

    claim = run(make_work())
    complete(claim.fence, Completion(result_id="r", output=None), now_ms=clock.ms)
    again = admit(command(), now_ms=clock.pass_ms(10**9))
    assert not again.created and again.workload.state == "SUCCEEDED"


def test_plain_new_work_has_exactly_one_event(make_work):
    work = make_work()
    event = Event.objects.get(workload=work)
    assert (event.sequence, event.from_state, event.to_state) == (1, "CREATED", "READY")
    assert event.event_type == "workload.ready" and event.evidence == {}


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"idempotency_key": "  "}, "/idempotency_key"),
        ({"idempotency_key": "k" * (limits.MAX_TEXT_CHARS + 1)}, "/idempotency_key"),
        ({"definition_id": ""}, "/definition_id"),
        ({"application_id": "a" * (limits.MAX_NAME_CHARS + 1)}, "/application_id"),
        ({"priority": 2**31}, "/priority"),
        ({"retry_policy": RetryPolicy(max_attempts=0)}, "/retry_policy/max_attempts"),
        ({"retry_policy": RetryPolicy(max_attempts=limits.MAX_ATTEMPTS + 1)}, "/retry_policy/max_attempts"),
        ({"retry_policy": RetryPolicy(initial_delay_ms=-1)}, "/retry_policy/initial_delay_ms"),
        ({"retry_policy": RetryPolicy(max_delay_ms=limits.MAX_DELAY_MS + 1)}, "/retry_policy/max_delay_ms"),
        ({"timeouts": Timeouts(queue_ms=0)}, "/timeouts/queue_ms"),
        ({"timeouts": Timeouts(approval_ms=5)}, "/timeouts/approval_ms"),
        ({"when_unreachable": "explode"}, "/when_unreachable"),
        ({"not_before_at_ms": -1}, "/not_before_at_ms"),
        ({"dependencies": (DependsOn(workload_id="workload_none"),)}, "/dependencies/0"),
        (
            {"dependencies": (DependsOn(workload_id="x", required_state="RUNNING"),)},
            "/dependencies/0/required_state",
        ),
        ({"input": "x" * limits.MAX_INPUT_BYTES}, "/input"),
    ],
)
def test_what_cannot_be_work_is_refused_with_its_place_and_leaves_the_key_free(command, clock, changed, pointer):
    """W35 for the zero deadline; the bounds are the limits' own."""
    with pytest.raises(WorkloadError) as refused:
        admit(command(**changed), now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_INVALID" and refused.value.details["pointer"] == pointer
    assert Workload.objects.count() == 0
    assert admit(command(), now_ms=clock.ms).created


def test_values_at_their_limits_are_taken(command, clock):
    at_limit = command(
        "k" * limits.MAX_TEXT_CHARS,
        application_id="a" * limits.MAX_NAME_CHARS,
        input="x" * (limits.MAX_INPUT_BYTES - 2),
        priority=-(2**31),
        retry_policy=RetryPolicy(max_attempts=limits.MAX_ATTEMPTS, max_delay_ms=limits.MAX_DELAY_MS),
    )
    assert admit(at_limit, now_ms=clock.ms).created


def test_a_secret_in_the_input_is_refused_with_its_pointer_and_never_repeated(command, clock):
    with pytest.raises(WorkloadError) as refused:
        admit(command(input={"to": [{"db/main": {"Password": "hunter2"}}]}), now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_SECRET_REJECTED"
    assert refused.value.details["pointer"] == "/input/to/0/db~1main/Password"
    assert "hunter2" not in str(refused.value.message)


def test_a_batch_larger_than_its_limit_is_refused(command, clock):
    batch = [prepare(command(f"k{number}")) for number in range(limits.MAX_BATCH + 1)]
    with pytest.raises(WorkloadError):
        admit_many(batch, now_ms=clock.ms)
    assert all(row.created for row in admit_many(batch[:-1], now_ms=clock.ms))


def test_a_request_is_frozen_once_made():
    request = CreateWorkload(
        namespace="n", definition_id="d", requested_by=Subject(kind="human", id="h"), idempotency_key="k"
    )
    with pytest.raises(AttributeError):
        request.priority = 3  # type: ignore[misc]


@pytest.mark.parametrize("value", [float("nan"), [1, -float("inf")], {"a": (1.5, float("nan"))}, {1: 2}, {1, "a"}])
def test_an_input_that_json_cannot_say_is_refused_and_never_kept_as_something_else(command, value):
    with pytest.raises(WorkloadError) as refused:
        prepare(command(input=value))
    assert refused.value.code == "WORKLOAD_INVALID" and refused.value.details == {"pointer": "/input"}


def test_what_is_judged_of_an_input_is_what_is_kept_of_it(command):
    assert prepare(command(input={2, 1})).fingerprint == prepare(command(input=[1, 2])).fingerprint
    with pytest.raises(WorkloadError) as refused:
        prepare(command(input=MappingProxyType({"password": "x"})))
    assert refused.value.code == "WORKLOAD_SECRET_REJECTED"
