"""Reading definitions, and defining: what is accepted, what is refused and by which name, who may, and what changes."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.keys.audit.models import AuditEvent
from apps.keys.principal import Principal
from apps.keys.verify import principal_for
from apps.triggers import changing, limits, services
from apps.triggers.definition import of_trigger, read
from apps.triggers.models import Trigger, TriggerCursor, TriggerRevision
from apps.workloads.commands import Subject
from tests.triggers.conftest import BY

WHO = Subject(kind="service", id="k1")
LEAST = {
    "trigger_id": "t",
    "source_collection": "orders",
    "change_kind": "insert",
    "target_capability": "identity",
}


def reading(**members: Any) -> Any:
    return read(LEAST | members, namespace="test", requested_by=WHO)


@pytest.fixture
def key(make_key: Any) -> Callable[..., Principal]:
    """A function that makes a key with some scopes and gives its principal."""

    def make(*scopes: str) -> Principal:
        return principal_for(make_key(scopes=list(scopes)).key)

    return make


DEFINES = ("triggers:write", "workload:create")


def test_what_is_not_given_has_its_default() -> None:
    definition = reading()
    assert definition.application_id == "default"
    assert definition.environment == "production"
    assert definition.definition_revision == "trigger"
    assert definition.requested_by == WHO
    assert definition.enabled
    assert definition.start_from == "now"
    assert definition.retry_policy.max_attempts == 3


def test_null_counts_as_not_given() -> None:
    names = ("predicate", "environment", "timeouts", "retry_policy", "priority", "depth_limit")
    nothing = dict.fromkeys(names)
    assert reading(**nothing) == reading()


def test_json_of_a_definition_reads_back_as_the_same_definition() -> None:
    definition = reading(
        change_kind=["delete", "insert"],
        predicate={"any": [{"field": "a", "op": "in", "value": [1, "x"]}]},
        connection_scopes=["b", "a", "b"],
        capability_snapshot=["identity"],
        retry_policy={"max_attempts": 7, "retry_on": ["timeout"]},
        timeouts={"execution_ms": 5},
        delay_ms=10,
        depth_limit=2,
        enabled=False,
    )
    assert read(definition.as_json(), namespace="test", requested_by=WHO) == definition
    assert definition.connection_scopes == ("a", "b")
    assert definition.change_kinds == ("insert", "delete")


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"trigger_id": "a/b"}, "trigger_id"),
        ({"trigger_id": "x" * (limits.MAX_ID_CHARS + 1)}, "trigger_id"),
        ({"trigger_id": 7}, "trigger_id"),
        ({"source_collection": "_flow_capabilities"}, "source_collection"),
        ({"change_kind": "upsert"}, "change_kind"),
        ({"change_kind": []}, "change_kind"),
        ({"change_kind": ["insert", ["update"]]}, "change_kind"),
        ({"predicate": {"field": "a"}}, "predicate"),
        ({"predicate": 7}, "predicate"),
        ({"tenant_id": "other"}, "tenant_id"),
        ({"requested_by": {"kind": "robot", "id": "x"}}, "requested_by"),
        ({"requested_by": {"kind": ["human"], "id": "x"}}, "requested_by"),
        ({"requested_by": {"kind": "human", "id": " "}}, "id"),
        ({"authorization_snapshot": {"signature": "x"}}, "authorization_snapshot"),
        ({"capability_snapshot": "identity"}, "capability_snapshot"),
        ({"capability_snapshot": [" "]}, "capability_snapshot"),
        ({"connection_scopes": ["s"] * (limits.MAX_CONNECTION_SCOPES + 1)}, "connection_scopes"),
        ({"priority": 2**31}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": 1.0}, "priority"),
        ({"retry_policy": {"tries": 1}}, "retry_policy"),
        ({"retry_policy": {"max_attempts": "3"}}, "retry_policy"),
        ({"retry_policy": {"retry_on": "timeout"}}, "retry_policy"),
        ({"timeouts": {"execution_ms": 1.5}}, "timeouts"),
        ({"timeouts": [1]}, "timeouts"),
        ({"not_before": -1}, "not_before"),
        ({"not_before": 1, "not_before_at_ms": 1000}, "not_before"),
        ({"not_before_at_ms": 1000, "delay_ms": 1}, "delay_ms"),
        ({"delay_ms": limits.MAX_DELAY_MS + 1}, "delay_ms"),
        ({"enabled": 1}, "enabled"),
        ({"start_from": "yesterday"}, "start_from"),
        ({"max_lag_operations": 0}, "max_lag_operations"),
        ({"depth_limit": limits.MAX_DEPTH + 1}, "depth_limit"),
        ({"trigger": "x"}, "trigger"),
    ],
)
def test_what_cannot_be_a_trigger_is_refused_by_the_name_of_its_member(members: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        reading(**members)
    assert refused.value.code == "TRIGGER_INVALID"
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    "members",
    [
        {"trigger_id": "x" * limits.MAX_ID_CHARS},
        {"connection_scopes": [f"s{n}" for n in range(limits.MAX_CONNECTION_SCOPES)]},
        {"delay_ms": limits.MAX_DELAY_MS},
        {"max_lag_operations": limits.MAX_LAG_OPERATIONS},
        {"depth_limit": limits.MAX_DEPTH},
        {"priority": -(2**31)},
    ],
)
def test_a_limit_itself_is_allowed(members: dict[str, Any]) -> None:
    reading(**members)


def test_a_predicate_is_refused_with_the_place_in_it() -> None:
    with pytest.raises(ApiError) as refused:
        reading(predicate={"all": [{"field": "a", "equals": 1}, {"field": "a", "op": "like", "value": 1}]})
    assert refused.value.details == {"field": "predicate", "pointer": "/predicate/all/1/op"}


@pytest.mark.parametrize(
    ("members", "field"),
    [({"retry_policy": {"max_attempts": 0}}, "retry_policy"), ({"timeouts": {"queue_ms": 0}}, "timeouts")],
)
def test_what_could_never_become_work_is_refused_when_it_is_defined(
    world: Any, members: dict[str, Any], field: str
) -> None:
    with pytest.raises(ApiError) as refused:
        world.define(**members)
    assert (refused.value.code, refused.value.details["field"]) == ("TRIGGER_INVALID", field)
    assert not Trigger.objects.exists()


def test_every_change_is_a_revision_with_author_and_difference(world: Any) -> None:
    world.define(priority=1)
    world.define(priority=2)
    services.disable(world.namespace, "on-order", by=BY, now_ms=11, reason="quiet")
    rows = list(TriggerRevision.objects.values_list("revision", "action", "author", "reason"))
    assert rows == [
        (1, "define", "human:tests", ""),
        (2, "revise", "human:tests", ""),
        (3, "disable", "human:tests", "quiet"),
    ]
    assert TriggerRevision.objects.get(revision=2).diff == {"priority": [1, 2]}
    assert TriggerRevision.objects.get(revision=3).diff == {"enabled": [True, False], "state": ["active", "disabled"]}
    assert world.trigger().revision == 3


def test_every_change_by_somebody_is_in_the_audit_trail_and_none_that_failed(world: Any) -> None:
    world.define()
    with pytest.raises(ApiError):
        world.define(application_id="other")
    services.archive(world.namespace, "on-order", by=BY, now_ms=11, reason="no longer sold")
    rows = AuditEvent.objects.filter(action__startswith="trigger.").order_by("id")
    assert [(row.action, row.target, row.namespace, row.subject, row.reason) for row in rows] == [
        ("trigger.define", "on-order", "test", "human:tests", ""),
        ("trigger.archive", "on-order", "test", "human:tests", "no longer sold"),
    ]
    assert rows[0].after_digest == rows[1].before_digest != rows[1].after_digest


def test_the_same_definition_again_changes_nothing(world: Any) -> None:
    world.define()
    before = TriggerRevision.objects.count()
    world.define()
    assert TriggerRevision.objects.count() == before
    assert world.trigger().revision == 1


def test_a_cursor_repeats_revision_and_liveness_of_its_trigger_after_every_change(world: Any) -> None:
    world.define()
    namespace, by = world.namespace, {"by": BY, "now_ms": 11}
    changes = [
        lambda: world.define(priority=4),
        lambda: services.pause(namespace, "on-order", reason="r", **by),
        lambda: services.resume(namespace, "on-order", **by),
        lambda: services.disable(namespace, "on-order", **by),
        lambda: world.define(priority=5),
        lambda: services.enable(namespace, "on-order", **by),
        lambda: changing.block(world.trigger().pk, revision=7, code="FEED_COMPACTED", reason="r", now_ms=11),
        lambda: world.define(priority=6),
        lambda: services.enable(namespace, "on-order", **by),
        lambda: services.archive(namespace, "on-order", **by),
        lambda: world.define(priority=7),
    ]
    for number, change in enumerate(changes, start=2):
        change()
        trigger, cursor = world.trigger(), TriggerCursor.objects.get()
        assert trigger.revision == cursor.revision == number
        assert cursor.live is (trigger.state == "active")


def test_defining_again_leaves_a_trigger_held_up_as_it_is(world: Any) -> None:
    world.define()
    services.pause(world.namespace, "on-order", by=BY, now_ms=11, reason="m")
    world.define(priority=3, enabled=True)
    assert (world.trigger().state, world.trigger().priority) == ("paused", 3)


def test_a_disabled_trigger_defined_again_without_a_word_stays_disabled(world: Any) -> None:
    world.define(enabled=False)
    world.define(priority=3)
    assert world.trigger().state == "disabled"
    world.define(priority=3, enabled=True)
    assert world.trigger().state == "active"


@pytest.mark.parametrize(
    ("member", "other"), [("application_id", "other"), ("requested_by", {"kind": "human", "id": "other"})]
)
def test_what_makes_its_work_unique_cannot_be_changed(world: Any, member: str, other: Any) -> None:
    world.define()
    with pytest.raises(ApiError) as refused:
        world.define(**{member: other})
    assert (refused.value.code, refused.value.details) == ("CONFLICT", {"field": member})


def test_a_key_defines_triggers_for_itself_only(world: Any, key: Callable[..., Principal]) -> None:
    by = key(*DEFINES)
    defined = services.define("test", LEAST, by=by, now_ms=10)
    assert of_trigger(defined.trigger).requested_by == Subject(kind="service", id=by.key_id)
    foreign = LEAST | {"trigger_id": "u", "requested_by": {"kind": "human", "id": "somebody"}}
    with pytest.raises(ApiError) as refused:
        services.define("test", foreign, by=key(*DEFINES), now_ms=10)
    assert refused.value.code == "TRIGGER_UNAUTHORIZED"
    services.define("test", foreign, by=key("*"), now_ms=10)


def test_a_key_cannot_redirect_the_work_of_another(world: Any, key: Callable[..., Principal]) -> None:
    services.define("test", LEAST, by=key(*DEFINES), now_ms=10)
    for attempt in (
        lambda by: services.define("test", LEAST | {"target_capability": "search"}, by=by, now_ms=11),
        lambda by: services.revise("test", "t", {"target_capability": "search"}, by=by, now_ms=11),
    ):
        with pytest.raises(ApiError) as refused:
            attempt(key(*DEFINES))
        assert refused.value.code == "TRIGGER_UNAUTHORIZED"
    assert Trigger.objects.get().target_capability == "identity"


def test_a_change_of_some_members_keeps_the_others(world: Any) -> None:
    world.define(predicate={"field": "n", "equals": 1}, priority=5, timeouts={"execution_ms": 5})
    services.revise(world.namespace, "on-order", {"priority": 6, "predicate": None}, by=BY, now_ms=11)
    trigger = world.trigger()
    assert (trigger.priority, trigger.predicate, trigger.timeouts) == (6, None, {"execution_ms": 5})
    services.revise(world.namespace, "on-order", {"not_before": 7}, by=BY, now_ms=12)
    assert world.trigger().not_before_at_ms == 7_000
    services.revise(world.namespace, "on-order", {"not_before": 8}, by=BY, now_ms=13)
    assert world.trigger().not_before_at_ms == 8_000


def test_a_change_of_what_is_not_there_is_not_found(world: Any) -> None:
    world.define("gone")
    services.archive(world.namespace, "gone", by=BY, now_ms=11)
    for trigger_id in ("never", "gone"):
        with pytest.raises(ApiError) as refused:
            services.revise(world.namespace, trigger_id, {"priority": 1}, by=BY, now_ms=12)
        assert (refused.value.code, refused.value.status) == ("TRIGGER_NOT_FOUND", 404)


def test_a_namespace_holds_no_more_triggers_than_its_limit(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TRIGGERS_PER_NAMESPACE", 2)
    world.define("one")
    world.define("two")
    with pytest.raises(ApiError) as refused:
        world.define("three")
    assert refused.value.code == "TRIGGER_INVALID"
    world.define("two", priority=9)


@pytest.mark.parametrize(
    ("operation", "members"),
    [("pause", {"reason": "r"}), ("resume", {})],
)
def test_an_operation_that_does_not_fit_the_state_is_a_conflict(
    world: Any, operation: str, members: dict[str, Any]
) -> None:
    world.define()
    if operation == "pause":
        services.disable(world.namespace, "on-order", by=BY, now_ms=11)
    with pytest.raises(ApiError) as refused:
        getattr(services, operation)(world.namespace, "on-order", by=BY, now_ms=12, **members)
    assert (refused.value.code, refused.value.status) == ("CONFLICT", 409)


@pytest.mark.parametrize("operation", ["enable", "disable", "archive"])
def test_an_operation_done_already_changes_nothing(world: Any, operation: str) -> None:
    world.define()
    call = lambda: getattr(services, operation)(world.namespace, "on-order", by=BY, now_ms=12)  # noqa: E731
    call()
    revision = world.trigger().revision
    if operation == "archive":
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.code == "TRIGGER_NOT_FOUND"
    else:
        call()
    assert world.trigger().revision == revision


def test_starting_at_a_cursor_the_feed_does_not_have_is_refused(world: Any) -> None:
    with pytest.raises(ApiError) as refused:
        world.define(start_from=f"{'0' * 32}-5")
    assert (refused.value.code, refused.value.details["field"]) == ("TRIGGER_INVALID", "start_from")
    with pytest.raises(ApiError) as refused:
        world.define(start_from=f"{world.store.instance_id}-5")
    assert refused.value.code == "TRIGGER_INVALID"
