"""What a reviewer found wrong with grants in the reference, rows 21 to 28 of its fact sheet: none of it is here."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.keys.audit.models import AuditEvent
from apps.keys.grants import keyring, limits, services, standing
from apps.keys.grants.errors import DelegationInvalid, GrantInvalid, GrantRefused
from apps.keys.grants.form import CONTRACT_VERSION, Constraints, Grant, GrantSubject
from apps.keys.grants.keyring import KeyRingFile, shared_ring
from apps.keys.grants.limits import MAX_CLOCK_SKEW_MS
from apps.keys.grants.models import IssuedGrant
from apps.keys.grants.rules import Context
from apps.keys.grants.signing import sign
from tests.keys.grants import vectors
from tests.keys.grants.conftest import (
    AGENT,
    CLAIM,
    NOW_MS,
    NOW_S,
    ORDERS,
    WORKER,
    Ask,
    Give,
    Holder,
    child_of,
    worker,
)


def rewrite(row: IssuedGrant, **members: Any) -> dict[str, Any]:
    """Put another grant, well signed, into the row, as somebody with the database and the signing key could."""
    signed = sign(replace(row.signed().grant, **members), shared_ring(now_ms=NOW_MS).current)
    IssuedGrant.objects.filter(pk=row.pk).update(document=orjson.dumps(signed.wire()).decode(), digest=signed.digest)
    return signed.wire()


def test_row_21_a_grant_cannot_be_delegated_to_itself_and_a_circle_made_by_force_ends_in_a_refusal(
    holder: Holder, give: Give, ask: Ask
) -> None:
    grant = give(holder().principal, grant_id="g1")
    with pytest.raises(DelegationInvalid):
        child_of(grant, worker(holder), grant_id="g1", subject=WORKER)
    itself = rewrite(grant, parent_grant="g1", issuer=WORKER)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert ask(itself).code == "GRANT_INVALID"
    assert len(queries) <= limits.MAX_DEPTH + 2
    refused = services.standing(itself, now_ms=NOW_MS)
    assert isinstance(refused, GrantInvalid)


def test_row_21_a_circle_of_two_made_by_force_ends_in_a_refusal(holder: Holder, give: Give, ask: Ask) -> None:
    first, second = give(holder().principal, grant_id="g1"), give(holder().principal, grant_id="g2")
    there = rewrite(first, parent_grant="g2", issuer=WORKER)
    rewrite(second, parent_grant="g1", issuer=WORKER)
    assert ask(there).code == "GRANT_INVALID"


@pytest.mark.parametrize("text", ["é" * 64, "é" * 128, "٣" * 128, "\ud800" * 128, "ab" * 63 + "é", "0X" + "a" * 126])
def test_row_22_hex_that_is_none_is_invalid_and_the_next_check_works(
    holder: Holder, give: Give, ask: Ask, text: str
) -> None:
    grant = give(holder().principal)
    for member in ("signature", "digest", "key_id"):
        assert ask({**grant.signed().wire(), member: text}).code == "GRANT_INVALID"
    assert ask(grant).allowed


def test_row_23_delegation_never_writes_over_a_grant_whoever_it_belongs_to(holder: Holder, give: Give) -> None:
    parent, other = give(holder().principal, grant_id="g1"), give(holder().principal, grant_id="g2", subject=AGENT)
    before = other.document
    with pytest.raises(DelegationInvalid):
        child_of(parent, worker(holder), grant_id="g2")
    other.refresh_from_db()
    assert other.document == before


def test_row_23_a_child_is_always_active_and_of_this_version_whatever_is_asked(holder: Holder, give: Give) -> None:
    child = child_of(give(holder().principal), worker(holder)).signed().grant
    assert (child.status, child.contract_version) == ("ACTIVE", CONTRACT_VERSION)
    for member in ({"status": "REVOKED"}, {"contract_version": 9}, {"issued_at": 0}, {"revision": 7}):
        with pytest.raises(TypeError):
            child_of(give(holder().principal), worker(holder), **member)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"issued_at": NOW_S + 60}, "GRANT_INVALID"),
        ({"status": "SUPERSEDED"}, "GRANT_INVALID"),
        ({"status": "EXPIRED"}, "GRANT_EXPIRED"),
        ({"status": "REVOKED"}, "GRANT_REVOKED"),
        ({"contract_version": 0}, "GRANT_INVALID"),
        ({"contract_version": 2}, "GRANT_INVALID"),
    ],
    ids=str,
)
def test_row_24_the_future_another_status_and_another_version_are_refused_even_when_well_signed(
    holder: Holder, give: Give, ask: Ask, members: dict[str, Any], code: str
) -> None:
    grant = give(holder().principal)
    child = child_of(grant, worker(holder))
    assert ask(rewrite(grant, **members)).code == code
    assert ask(child, subject=AGENT, resource=ORDERS).code == code


def test_row_24_the_future_begins_where_two_hosts_clocks_may_differ(holder: Holder, give: Give, ask: Ask) -> None:
    grant = give(holder().principal)
    assert ask(grant, now_ms=NOW_MS - MAX_CLOCK_SKEW_MS).allowed
    assert ask(grant, now_ms=NOW_MS - MAX_CLOCK_SKEW_MS - 1).code == "GRANT_INVALID"


def test_a_grant_that_is_looked_up_here_holds_also_when_the_clock_was_set_back_since(
    holder: Holder, give: Give
) -> None:
    grant = give(holder().principal).signed().grant
    before = NOW_MS - 3_600_000
    standing.forget_all()
    assert standing.refusal(grant.tenant_id, grant.id, now_ms=before) is None
    standing.forget_all()
    assert standing.refusal(grant.tenant_id, grant.id, now_ms=grant.expires_at * 1000) is not None


def test_row_25_a_check_writes_nothing_anywhere(holder: Holder, give: Give, ask: Ask, settings: Any) -> None:
    grant = give(holder().principal)
    events = AuditEvent.objects.count()
    secrets = settings.DATA_DIR / "secrets"
    files = {path: path.stat().st_mtime_ns for path in secrets.iterdir()}
    with CaptureQueriesContext(connection) as queries:
        for number in range(20):
            ask(grant, resource=f"{ORDERS}/{number}")
            ask(grant, capability="state:write")
    assert {query["sql"].split()[0] for query in queries} == {"SELECT"}
    assert len(queries) == 40, "one indexed query for a grant that stands on no other"
    assert AuditEvent.objects.count() == events
    assert {path: path.stat().st_mtime_ns for path in secrets.iterdir()} == files


def test_row_26_every_instance_makes_its_own_random_key_and_rotates_it(tmp_path: Any) -> None:
    files = [KeyRingFile(tmp_path / str(number) / "grant_keys.json") for number in range(3)]
    made = [file.ring(now_ms=1).current for file in files]
    made.append(files[0].rotate(now_ms=2).current)
    assert len({key.id for key in made}) == len({key.seed for key in made}) == 4


def test_row_26_no_text_from_the_environment_is_stretched_into_a_key() -> None:
    for text in ("secret", "development", "a" * 63, "A" * 64, "g" * 64):
        with pytest.raises(Exception, match="FELTDB_GRANT_KEYS"):
            keyring._from_environment(text)


def test_row_27_another_program_writes_the_same_bytes_from_the_documented_order() -> None:
    order = [
        *("contract_version", "id", "issuer", "subject", "tenant_id", "application_id", "capabilities", "resources"),
        *("constraints", "issued_at", "expires_at", "parent_grant", "revision", "status"),
    ]
    grant = Grant(
        status="ACTIVE",
        revision=2**40,
        parent_grant="p",
        expires_at=5,
        issued_at=4,
        constraints=Constraints(environments=frozenset({"ü", "a"}), context_attributes={"z": "\u2028", "a": '"'}),
        resources=(),
        capabilities=frozenset({"b", "a"}),
        application_id="ä / \\ app",
        tenant_id="t",
        subject=AGENT,
        issuer=GrantSubject("human", "日本"),
        id="g",
    )
    wire = json.loads(orjson.dumps(grant.wire(), option=orjson.OPT_SORT_KEYS))
    inner = [*json.loads(vectors.BYTES)["constraints"]]
    wire["constraints"] = {name: wire["constraints"][name] for name in inner}
    wire["issuer"] = {name: wire["issuer"][name] for name in ("kind", "id")}
    wire["subject"] = {name: wire["subject"][name] for name in ("kind", "id")}
    theirs = json.dumps({name: wire[name] for name in order}, ensure_ascii=False, separators=(",", ":")).encode()
    assert grant.signed_bytes() == theirs


def test_row_28_a_grant_with_every_constraint_is_usable_where_the_whole_context_is_known(
    holder: Holder, give: Give, ask: Ask
) -> None:
    grant = give(
        holder().principal,
        constraints=Constraints(
            environments=frozenset({"production"}),
            worker_class="gpu",
            network="private",
            workload_id="workload_1",
            connection_enabled=True,
            minimum_schema_version=2,
            subject_attributes={"type": "worker", "pool": "p1"},
            resource_attributes={"pii": "no"},
            context_attributes={"region": "eu"},
        ),
    )
    full = Context(
        environment="production",
        workload_id="workload_1",
        worker_class="gpu",
        network="private",
        connection_enabled=True,
        schema_version=2,
        subject_attributes={"pool": "p1"},
        resource_attributes={"pii": "no"},
        attributes={"region": "eu"},
    )
    claim = {"capability": "workload:claim", "resource": CLAIM}
    assert ask(grant, **claim, context=full).allowed
    refusals = {
        name: ask(grant, **claim, context=replace(full, **{name: type(getattr(full, name))()})).reason
        for name in full.__dataclass_fields__
    }
    assert (
        len(set(refusals.values())) == len(full.__dataclass_fields__)
        and "the grant allows this" not in refusals.values()
    )


def test_a_parent_that_is_not_what_was_signed_carries_no_child(holder: Holder, give: Give, ask: Ask) -> None:
    parent = give(holder().principal)
    wire = child_of(parent, worker(holder)).signed().wire()
    stored = parent.signed()
    stranger = keyring.key_from_seed(b"s" * 32, now_ms=0)
    forged = replace(sign(stored.grant, stranger), key_id=stored.key_id)
    other_form = sign(replace(stored.grant, revision=9), shared_ring(now_ms=NOW_MS).current)
    for document in (forged, other_form):
        assert ask(wire, subject=AGENT).allowed
        IssuedGrant.objects.filter(pk=parent.pk).update(document=orjson.dumps(document.wire()).decode())
        assert ask(wire, subject=AGENT).code == "GRANT_INVALID"
        IssuedGrant.objects.filter(pk=parent.pk).update(document=parent.document)


def test_a_child_wider_than_its_parent_is_refused_even_where_both_are_well_signed(
    holder: Holder, give: Give, ask: Ask
) -> None:
    parent = give(holder().principal)
    wire = child_of(parent, worker(holder)).signed().wire()
    rewrite(parent, capabilities=frozenset({"state:read"}))
    assert ask(wire, subject=AGENT).code == "GRANT_DELEGATION_INVALID"
    assert isinstance(services.standing(wire, now_ms=NOW_MS), DelegationInvalid)


def test_whatever_happens_to_the_stored_form_a_check_refuses_and_does_not_fail(
    holder: Holder, give: Give, ask: Ask
) -> None:
    parent = give(holder().principal)
    child = child_of(parent, worker(holder))
    wire = child.signed().wire()
    for document in ("", "{", "[]", "null", '{"grant": 1}', json.dumps({**wire, "signature": "00" * 64})):
        IssuedGrant.objects.filter(pk=parent.pk).update(document=document)
        assert ask(wire, subject=AGENT).code == "GRANT_INVALID"
        refused = services.standing(wire, now_ms=NOW_MS)
        assert isinstance(refused, GrantRefused)
