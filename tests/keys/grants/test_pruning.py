"""Grants that ended long ago go, from the leaves on, a few at a time; whatever named them goes on being refused."""

from typing import Any

import pytest
from django.db import connection

from apps.keys.audit.models import AuditEvent
from apps.keys.grants import limits, pruning, services, standing
from apps.keys.grants.errors import DelegationInvalid, GrantConflict, GrantNotFound
from apps.keys.grants.form import GrantSubject
from apps.keys.grants.models import IssuedGrant, SpentGrantId
from tests.keys.grants.conftest import AGENT, HOUR_S, NOW_MS, NOW_S, WORKER, Ask, Give, Holder

DAYS = 30
ENDED_MS = NOW_MS + HOUR_S * 1000
DUE_MS = ENDED_MS + DAYS * pruning.DAY_MS + 1


def pruned(now_ms: int = DUE_MS) -> int:
    return pruning.prune(days=DAYS, now_ms=now_ms)


def left() -> set[str]:
    return set(IssuedGrant.objects.values_list("grant_id", flat=True))


def test_a_grant_is_kept_for_its_days_after_its_end_and_not_a_moment_longer(holder: Holder, give: Give) -> None:
    short = give(holder().principal)
    long = give(holder().principal, expires_at=NOW_S + 2 * HOUR_S)
    assert pruned(DUE_MS - 1) == 0
    assert pruned() == 1 and left() == {long.grant_id}
    assert (pruned(), short.grant_id in left()) == (0, False)
    event = AuditEvent.objects.get(action="grant.pruned")
    assert event.reason == "1 grants removed"


def test_what_was_delegated_goes_before_what_it_stands_on(holder: Holder, give: Give, namespace: str) -> None:
    first = give(holder().principal)
    me, chain = holder(worker_id="w1").principal, [first]
    for _ in range(3):
        subject = GrantSubject("worker", "w1")
        child = services.delegate(
            chain[-1].grant_id,
            me,
            tenant_id=namespace,
            subject=subject,
            now_ms=NOW_MS,
            expires_at=first.expires_at_ms // 1000,
        )
        chain.append(child)
    for number in range(len(chain), 0, -1):
        assert left() == {row.grant_id for row in chain[:number]}
        assert pruned() == 1
    assert left() == set() and pruned() == 0


def test_one_pass_removes_a_bounded_number(holder: Holder, give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    principal = holder().principal
    for _ in range(5):
        give(principal)
    monkeypatch.setattr(limits, "PRUNE_ROWS", 2)
    assert [pruned(), pruned(), pruned(), pruned()] == [2, 2, 1, 0]


def test_whoever_presents_or_names_one_that_is_gone_is_told_that_it_expired(
    holder: Holder, give: Give, ask: Ask, namespace: str
) -> None:
    principal = holder().principal
    row = give(principal)
    signed, unknown = row.signed(), "grant_" + "0" * 32
    assert ask(signed).allowed
    assert pruned() == 1
    standing.forget_all()
    for at_ms in (NOW_MS, DUE_MS):  # whatever the clock says
        assert ask(signed, now_ms=at_ms).code == "GRANT_EXPIRED"
        assert code(standing.refusal(namespace, row.grant_id, now_ms=at_ms)) == "GRANT_EXPIRED"
    assert code(standing.refusal(namespace, unknown, now_ms=NOW_MS)) == "GRANT_INVALID"
    with pytest.raises(GrantNotFound):
        services.delegate(row.grant_id, principal, tenant_id=namespace, subject=AGENT, now_ms=NOW_MS)


def code(refused: Any) -> str | None:
    return None if refused is None else refused.code


def test_its_id_is_never_given_again(holder: Holder, give: Give, namespace: str) -> None:
    principal = holder().principal
    chosen = give(principal, grant_id="mine")
    own = give(principal)
    assert pruned() == 2
    for used in (chosen.grant_id, own.grant_id):
        with pytest.raises(GrantConflict, match="already"):
            give(principal, grant_id=used, expires_at=NOW_S + HOUR_S)
    parent = give(principal)
    with pytest.raises(DelegationInvalid, match="used"):
        me = holder(worker_id=WORKER.id).principal
        services.delegate(
            parent.grant_id, me, tenant_id=namespace, subject=AGENT, now_ms=NOW_MS, grant_id=chosen.grant_id
        )
    assert left() == {parent.grant_id}
    assert SpentGrantId.objects.count() == 2


def test_keys_and_people_stay(holder: Holder, give: Give) -> None:
    held = holder()
    give(held.principal)
    assert pruned() == 1
    assert type(held.key).objects.filter(pk=held.key.pk).exists()


def test_grants_are_kept_for_ever_where_the_settings_say_so(
    holder: Holder, give: Give, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(holder().principal)
    monkeypatch.setattr(pruning, "now_ms", lambda: DUE_MS)
    settings.GRANT_RETENTION_DAYS = 0
    assert not pruning.prune_due() and len(left()) == 1
    settings.GRANT_RETENTION_DAYS = DAYS
    assert pruning.prune_due() and not pruning.prune_due()
    assert left() == set()


def test_the_due_ones_are_found_by_an_index(db: None) -> None:
    due = IssuedGrant.objects.filter(expires_at_ms__lt=NOW_MS, children__isnull=True).order_by("expires_at_ms", "id")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # which reads a table this small whole, unless told not to
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
    assert "grants_by_their_end" in due[:1].explain()
