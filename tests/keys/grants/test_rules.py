"""Constraints and narrowing, without a database."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.keys.grants.errors import DelegationInvalid, GrantExpired, GrantInvalid, GrantRevoked
from apps.keys.grants.form import Constraints, Grant, GrantSubject, Resource
from apps.keys.grants.limits import MAX_CLOCK_SKEW_MS
from apps.keys.grants.rules import (
    Context,
    check_begun,
    check_narrower,
    check_time_and_status,
    first_looser,
    first_unmet,
)

AGENT = GrantSubject("agent", "a")
PARENT = Grant(
    id="p",
    issuer=GrantSubject("human", "owner"),
    subject=AGENT,
    tenant_id="t",
    application_id="app",
    capabilities=frozenset({"state:read", "state:write"}),
    resources=(Resource("RESOURCE_PREFIX", "flow://app/x"),),
    constraints=Constraints(environments=frozenset({"production", "staging"})),
    issued_at=100,
    expires_at=300,
)
CHILD = replace(PARENT, id="c", issuer=AGENT, subject=GrantSubject("worker", "w"), parent_grant="p")

MET: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # a constraint, a context that meets it, one that does not
    ({"environments": frozenset({"production"})}, {"environment": "production"}, {"environment": "staging"}),
    ({"worker_class": "gpu"}, {"worker_class": "gpu"}, {"worker_class": "cpu"}),
    ({"network": "private"}, {"network": "private"}, {"network": "public"}),
    ({"workload_id": "workload_1"}, {"workload_id": "workload_1"}, {"workload_id": "workload_2"}),
    ({"connection_enabled": True}, {"connection_enabled": True}, {"connection_enabled": False}),
    ({"connection_enabled": False}, {"connection_enabled": False}, {"connection_enabled": True}),
    ({"minimum_schema_version": 3}, {"schema_version": 3}, {"schema_version": 2}),
    ({"subject_attributes": {"team": "a"}}, {"subject_attributes": {"team": "a"}}, {"subject_attributes": {}}),
    ({"resource_attributes": {"pii": "no"}}, {"resource_attributes": {"pii": "no"}}, {"attributes": {"pii": "no"}}),
    ({"context_attributes": {"ip": "10"}}, {"attributes": {"ip": "10"}}, {"attributes": {"ip": "11"}}),
]


@pytest.mark.parametrize(("constraint", "good", "bad"), MET, ids=lambda value: str(value)[:40])
def test_each_constraint_holds_in_its_circumstances_not_in_others_and_not_in_unknown_ones(
    constraint: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    constraints = Constraints(**constraint)
    name = next(iter(constraint))
    assert first_unmet(constraints, AGENT, Context(**good)) is None
    for context in (Context(**bad), Context()):
        assert str(first_unmet(constraints, AGENT, context)).split(".")[0] == name


def test_the_type_of_the_subject_is_its_kind_and_no_attribute_can_say_otherwise() -> None:
    constraints = Constraints(subject_attributes={"type": "human"})
    assert first_unmet(constraints, GrantSubject("human", "h"), Context()) is None
    lying = Context(subject_attributes={"type": "human"})
    assert first_unmet(constraints, AGENT, lying) == "subject_attributes.type"


@pytest.mark.parametrize("constraint", [case[0] for case in MET], ids=str)
def test_no_constraint_of_a_parent_can_be_left_out_or_loosened(constraint: dict[str, Any]) -> None:
    name = next(iter(constraint))
    parent = Constraints(**constraint)
    assert first_looser(parent, parent) is None
    assert str(first_looser(Constraints(), parent)).split(".")[0] == name
    assert first_looser(parent, Constraints()) is None


def test_a_child_may_be_the_same_or_narrower() -> None:
    check_narrower(CHILD, PARENT)
    check_narrower(
        replace(
            CHILD,
            capabilities=frozenset({"state:read"}),
            resources=(Resource("RESOURCE", "flow://app/x/y"),),
            constraints=Constraints(environments=frozenset({"staging"}), network="private"),
            issued_at=150,
            expires_at=299,
        ),
        PARENT,
    )


WIDER: dict[str, dict[str, Any]] = {
    "one capability more": {"capabilities": frozenset({"state:read", "connection:use"})},
    "another resource": {"resources": (Resource("RESOURCE", "flow://app/y"),)},
    "one resource more": {"resources": (*PARENT.resources, Resource("RESOURCE", "flow://app/y"))},
    "the whole application": {"resources": (Resource("APPLICATION", "flow://app"),)},
    "a second longer": {"expires_at": 301},
    "a second earlier": {"issued_at": 99},
    "another tenant": {"tenant_id": "t2"},
    "another application": {"application_id": "app2"},
    "another issuer": {"issuer": GrantSubject("agent", "b")},
    "the issuer's kind changed": {"issuer": GrantSubject("human", "a")},
    "no environments": {"constraints": Constraints()},
    "one environment more": {"constraints": Constraints(environments=frozenset({"staging", "development"}))},
}


@pytest.mark.parametrize("change", WIDER.values(), ids=WIDER)
def test_delegation_only_narrows(change: dict[str, Any]) -> None:
    with pytest.raises(DelegationInvalid):
        check_narrower(replace(CHILD, **change), PARENT)


_TEXTS = st.sampled_from(["a", "b"])
_CONSTRAINTS = st.builds(
    Constraints,
    environments=st.frozensets(_TEXTS),
    network=st.none() | _TEXTS,
    connection_enabled=st.none() | st.booleans(),
    minimum_schema_version=st.none() | st.integers(0, 2),
    context_attributes=st.dictionaries(_TEXTS, _TEXTS),
)
_CONTEXTS = st.builds(
    Context,
    environment=st.none() | _TEXTS,
    network=st.none() | _TEXTS,
    connection_enabled=st.none() | st.booleans(),
    schema_version=st.none() | st.integers(0, 2),
    attributes=st.dictionaries(_TEXTS, _TEXTS),
)


@given(_CONSTRAINTS, _CONSTRAINTS, _CONTEXTS)
def test_constraints_at_least_as_tight_never_hold_where_the_looser_ones_do_not(
    child: Constraints, parent: Constraints, context: Context
) -> None:
    if first_looser(child, parent) is None and first_unmet(child, AGENT, context) is None:
        assert first_unmet(parent, AGENT, context) is None


@pytest.mark.parametrize(
    ("change", "now_ms", "refusal"),
    [
        ({}, 299_999, None),
        ({}, 300_000, GrantExpired),
        ({}, 100_000 - MAX_CLOCK_SKEW_MS, None),
        ({}, 100_000 - MAX_CLOCK_SKEW_MS - 1, GrantInvalid),
        ({"issued_at": 300}, 300_000, GrantInvalid),
        ({"status": "REVOKED"}, 200_000, GrantRevoked),
        ({"status": "EXPIRED"}, 200_000, GrantExpired),
        ({"status": "SUPERSEDED"}, 200_000, GrantInvalid),
    ],
)
def test_time_and_status_hold_to_the_millisecond_and_only_active_is_active(
    change: dict[str, Any], now_ms: int, refusal: type[Exception] | None
) -> None:
    grant = replace(PARENT, **change)
    if refusal is None:
        check_begun(grant, now_ms)
        check_time_and_status(grant, now_ms)
        return
    with pytest.raises(refusal):
        check_begun(grant, now_ms)
        check_time_and_status(grant, now_ms)
