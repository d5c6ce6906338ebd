"""Refusals of authority are recorded; floods of them are counted, sampled and bounded."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import Sum

from apps.http.codes import CODES
from apps.keys import services, token
from apps.keys.audit import limits, refusals
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.refusals import OTHERS, Refusal, Tally, address_of
from apps.keys.principal import Principal, operator
from tests.conftest import ApiClient

NOW_MS = 1_800_000_000_000


def refusal(address: str = "192.0.2.1", at_ms: int = NOW_MS, principal: Principal | None = None) -> Refusal:
    return Refusal(
        code="AUTHENTICATION_REQUIRED",
        reason="no",
        target="GET /v1/keys",
        request_id="req_1",
        address=address,
        principal=principal,
        namespace="",
        at_ms=at_ms,
    )


def unknown() -> str:
    return token.new_token(token.new_key_id(), "live").text


def denied() -> Any:
    return AuditEvent.objects.filter(outcome="denied").order_by("id")


def test_a_caller_without_a_valid_key_leaves_its_address_and_its_request_never_its_key(
    api: Callable[..., ApiClient], namespace: str
) -> None:
    secret = unknown()
    answer = api(secret).get("/v1/keys/current", REMOTE_ADDR="192.0.2.7")
    event = denied().get()
    assert (event.action, event.code, event.outcome) == ("authentication.refused", "AUTHENTICATION_REQUIRED", "denied")
    assert (event.address, event.target) == ("192.0.2.7", "GET /v1/keys/current")
    assert (event.request_id, event.key_id, event.subject, event.count) == (answer["X-Request-ID"], "", "", 1)
    assert secret not in str(denied().values()) and secret[-43:] not in str(denied().values())


def test_a_known_caller_leaves_who_it_is_what_it_lacks_and_where_each_time(
    api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    key = make_key(scopes=["state:read"])
    for _ in range(3):
        assert api(key).get("/v1/keys").status_code == 403
    events = list(denied())
    assert len(events) == 3
    assert {(event.key_id, event.subject, event.code) for event in events} == {
        (key.key.id, f"service:{key.key.id}", "FORBIDDEN")
    }
    assert events[0].reason.startswith("MISSING_SCOPE") and "keys:admin" in events[0].reason


def test_another_namespaces_name_is_refused_and_recorded_for_the_instance(
    api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    api(make_key(namespaces=["another"]), namespace="test").get("/v1/grants")
    event = denied().get()
    assert (event.namespace, event.reason.split()[0]) == ("", "NAMESPACE_DENIED")


def test_a_revoked_key_is_an_unknown_caller(
    api: Callable[..., ApiClient], make_key: Callable[..., Any], transactional_db: None
) -> None:
    key = make_key()
    services.revoke_key(key.key.id, by=operator("ops"))
    assert api(key).get("/v1/keys/current").status_code == 401
    assert denied().get().action == "authentication.refused"


def test_what_is_no_refusal_of_authority_is_not_recorded(api: Callable[..., ApiClient]) -> None:
    client = api()
    for path in ("/v1/keys/current", "/v1/grants/none", "/v1/grants?limit=0", "/v1/nowhere"):
        client.get(path)
    client.post_json("/v1/grants", b"{")
    assert not denied().exists()


def test_the_codes_of_authority_are_these() -> None:
    assert {code for code in CODES if refusals.is_of_authority(code)} >= {
        "AUTHENTICATION_REQUIRED",
        "FORBIDDEN",
        "GRANT_INVALID",
        "GRANT_REVOKED",
        "TRIGGER_UNAUTHORIZED",
        "WORKLOAD_UNAUTHORIZED",
    }
    assert not any(refusals.is_of_authority(code) for code in ("NOT_FOUND", "CONFLICT", "JSON_INVALID", "RATE_LIMITED"))


@pytest.mark.acceptance  # 10,000 requests through Django: about 10 s, 40 s on PostgreSQL
def test_a_flood_of_10_000_unknown_keys_leaves_a_bounded_number_of_rows_that_add_up(
    api: Callable[..., ApiClient], namespace: str
) -> None:
    clients = [api(unknown()) for _ in range(100)]
    for number in range(10_000):
        assert clients[number % 100].get("/v1/keys/current", REMOTE_ADDR="192.0.2.1").status_code == 401
    refusals.write_rest()
    minutes = {at_ms // 60_000 for at_ms in denied().values_list("at_ms", flat=True)}
    assert denied().count() <= 6 * len(minutes)
    assert denied().aggregate(total=Sum("count"))["total"] == 10_000


def test_10_000_refusals_of_one_address_in_one_minute_are_five_rows_that_add_up(db: None) -> None:
    for _ in range(10_000):
        refusals.note(refusal())
    assert list(denied().values_list("count", flat=True)) == [1, 9, 90, 900, 9000]


def test_10_000_addresses_in_one_minute_are_a_bounded_number_of_rows_that_add_up(db: None) -> None:
    for number in range(10_000):
        refusals.note(refusal(f"10.0.{number // 250}.{number % 250}"))
    refusals.write_rest()
    assert denied().count() <= limits.MAX_ADDRESSES_A_MINUTE + 6
    assert denied().aggregate(total=Sum("count"))["total"] == 10_000
    assert denied().filter(address=OTHERS).aggregate(total=Sum("count"))["total"] == 9_950


def test_a_new_minute_writes_what_was_waiting_and_counts_afresh(db: None) -> None:
    for _ in range(15):
        refusals.note(refusal())
    assert list(denied().values_list("count", flat=True)) == [1, 9]
    refusals.note(refusal(at_ms=NOW_MS + 60_000))
    assert list(denied().values_list("count", flat=True)) == [1, 9, 5, 1]


def test_a_key_that_floods_is_recorded_in_full_up_to_the_limit_and_counted_beyond(db: None) -> None:
    principal = operator("ops")
    for _ in range(5_000):
        refusals.note(refusal(principal=principal))
    refusals.write_rest()
    counts = list(denied().values_list("count", flat=True))
    assert counts == [1] * limits.FULL_ROWS_A_MINUTE + [900, 4_000]


def test_threads_lose_no_count() -> None:
    tally = Tally(full_rows=1, told_apart=10)
    written: list[Refusal] = []

    def flood() -> None:
        for number in range(2_000):
            written.extend(tally.note(f"10.0.0.{number % 15}", refusal()))

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(item.count for item in [*written, *tally.rest()]) == 8_000


def test_a_database_that_takes_no_event_changes_no_answer(
    api: Callable[..., ApiClient], namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(AuditEvent.objects, "bulk_create", busy)
    assert api(unknown()).get("/v1/keys/current").status_code == 401
    assert "1 refusals not recorded" in caplog.text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", "unknown"),
        ("unix:", "unknown"),
        ("<script>", "unknown"),
    ],
)
def test_addresses_are_told_apart_by_what_one_caller_can_have(text: str, address: str) -> None:
    assert address_of(text) == address
    assert len(address_of(text)) <= limits.MAX_ADDRESS_CHARS
