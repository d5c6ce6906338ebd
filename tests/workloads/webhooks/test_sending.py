"""Webhooks against a real HTTPS server of this test: signatures, answers, silence, every way to be called inside."""

import json
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import StringIO

import pytest
from django.core.management import call_command
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from apps.keys.services import ensure_namespace
from apps.workloads import limits, services
from apps.workloads.capabilities import Cancelled
from apps.workloads.clock import now_ms
from apps.workloads.commands import RetryPolicy
from apps.workloads.models import Event, Result, Workload
from apps.workloads.webhooks import signing, targets
from apps.workloads.webhooks.program import retry_after_ms, webhook
from apps.workloads.worker import Worker
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.test_worker import options
from tests.workloads.webhooks.conftest import Ctx, failing


def test_a_message_is_signed_as_standard_webhooks_verifies_it(receiver):
    body = {"type": "order.paid", "data": {"total": 1.0, "name": "Åse"}}
    assert webhook({"url": receiver.url("/200/a?b=1"), "body": body}, Ctx()) == {
        "status": 200,
        "url": receiver.url("/200/a?b=1"),
    }
    [(path, headers, raw)] = receiver.taken
    [secret] = signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}")
    assert Webhook(secret).verify(raw, headers) == body
    assert raw == '{"type":"order.paid","data":{"total":1.0,"name":"Åse"}}'.encode()
    assert path == "/200/a?b=1" and headers["Host"] == f"localhost:{receiver.port}"
    assert headers["webhook-id"] == Ctx.workload_id and headers["Content-Type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(raw + b" ", headers)
    for other in (
        signing.secrets_for("other", f"https://localhost:{receiver.port}"),
        signing.secrets_for(NAMESPACE, "https://localhost:1"),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(other[0]).verify(raw, headers)


def test_a_message_carries_the_place_in_a_trace_that_its_work_has(receiver):
    traced = Ctx()
    traced.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for context in (Ctx(), traced):
        webhook({"url": receiver.url("/200/a"), "body": {}}, context)
    assert [headers.get("traceparent") for _, headers, _ in receiver.taken] == [None, traced.traceparent]


def test_while_secrets_are_exchanged_both_verify(receiver, settings):
    settings.WEBHOOK_SECRETS = ["the new one, long enough to be", "the old one, long enough to be"]
    webhook({"url": receiver.url(), "body": None}, Ctx())
    [(_, headers, raw)] = receiver.taken
    assert raw == b"null"
    for secret in signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}"):
        assert Webhook(secret).verify(raw, headers) is None


@pytest.mark.django_db
def test_the_command_prints_the_secret_of_a_receiver_to_a_namespace_there_is(receiver):
    ensure_namespace(NAMESPACE)
    out = StringIO()
    call_command("webhook", "secret", receiver.url(), "--namespace", NAMESPACE, "--json", stdout=out)
    shown = json.loads(out.getvalue())
    assert shown["secrets"] == signing.secrets_for(NAMESPACE, f"https://localhost:{receiver.port}")
    with pytest.raises(SystemExit):
        call_command("webhook", "secret", "http://localhost/", stderr=StringIO())
    told = StringIO()
    with pytest.raises(SystemExit):
        call_command("webhook", "secret", receiver.url(), "--namespace", "mistyped", stderr=told)
    assert "there is no namespace mistyped" in told.getvalue()


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_a_plain_refusal_is_not_tried_again(receiver, status):
    failure = failing({"url": receiver.url(f"/{status}")}, kind="webhook_rejected")
    assert failure.effect == "none" and str(status) in failure.message


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504])
def test_a_server_in_trouble_is_tried_again(receiver, status):
    assert failing({"url": receiver.url(f"/{status}")}, kind="transient_connection").retry_after_ms is None


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(receiver, status):
    failure = failing({"url": receiver.url(f"/{status}/17")}, kind="transient_connection")
    assert failure.retry_after_ms == 17_000 and failure.effect == "none"


def test_retry_after_is_seconds_or_a_date_bounded_and_never_negative():
    now = 1_700_000_000_000
    at = datetime.fromtimestamp(now / 1000, tz=UTC)
    assert retry_after_ms("0", now) == 0 and retry_after_ms(" 5 ", now) == 5_000
    assert retry_after_ms(format_datetime(at + timedelta(seconds=90), usegmt=True), now) == 90_000
    assert retry_after_ms(format_datetime(at - timedelta(seconds=90), usegmt=True), now) == 0
    assert retry_after_ms("9" * 40, now) == limits.MAX_RETRY_AFTER_MS
    for nonsense in ("", "soon", "-1", "1.5", "²"):
        assert retry_after_ms(nonsense, now) is None


@pytest.mark.parametrize("path", ["/silent", "/drip"])
def test_silence_and_an_answer_that_drips_end_with_the_deadline_and_the_outcome_is_unknown(receiver, path):
    began = time.monotonic()
    failure = failing({"url": receiver.url(path), "timeout_ms": 500}, kind="transient_connection")
    assert failure.effect == "unknown" and time.monotonic() - began < 15


def test_an_answer_whose_body_never_ends_has_said_its_status(receiver):
    assert webhook({"url": receiver.url("/200/slow-body"), "timeout_ms": 5_000}, Ctx())["status"] == 200
    failing({"url": receiver.url("/500/slow-body"), "timeout_ms": 5_000}, kind="transient_connection")


def test_a_connection_that_ends_in_the_middle_has_an_unknown_outcome(receiver):
    assert failing({"url": receiver.url("/hangup")}, kind="transient_connection").effect == "unknown"


def test_where_nobody_listens_nothing_was_sent(receiver, settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings.WEBHOOK_LOCAL_TARGETS = [f"localhost:{taken.getsockname()[1]}"]
        url = f"https://localhost:{taken.getsockname()[1]}/"
        assert failing({"url": url}, kind="transient_connection").effect == "none"


def test_a_name_that_does_not_resolve_is_tried_again(monkeypatch):
    def nowhere(*args, **kwargs):
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(targets.socket, "getaddrinfo", nowhere)
    assert failing({"url": "https://hooks.test/"}, kind="transient_connection").effect == "none"


def test_a_certificate_nobody_vouches_for_is_refused(receiver, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    failure = failing({"url": receiver.url()}, kind="webhook_target_refused")
    assert "certificate" in failure.message.lower() and receiver.taken == []


def test_redirects_that_keep_the_method_are_followed_with_the_same_message(receiver):
    receiver.redirect_to = "/200/moved"
    for status in (307, 308):
        answer = webhook({"url": receiver.url(f"/{status}"), "body": 1}, Ctx())
        assert answer == {"status": 200, "url": receiver.url("/200/moved")}
    assert [path for path, _, _ in receiver.taken] == ["/307", "/200/moved", "/308", "/200/moved"]
    assert {raw for _, _, raw in receiver.taken} == {b"1"}


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirects_that_would_make_it_a_get_are_not_followed(receiver, status):
    receiver.redirect_to = "/200"
    failing({"url": receiver.url(f"/{status}")}, kind="webhook_rejected")
    assert len(receiver.taken) == 1


@pytest.mark.parametrize(
    "location",
    ["http://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest/meta-data/", "/307"],
)
def test_a_redirect_is_held_to_the_same_rules_and_ends(receiver, location):
    receiver.redirect_to = location
    failing({"url": receiver.url("/307")}, kind="webhook_target_refused")
    assert len(receiver.taken) <= 4


@pytest.mark.parametrize(
    "input",
    [None, [], {}, {"url": 1}, {"url": "https://hooks.test/", "headers": {}}]
    + [{"url": "https://hooks.test/", "timeout_ms": value} for value in (99, 120_001, True, 1.0, "1")],
)
def test_input_that_says_no_webhook_is_refused(input, connecting):
    failing(input, kind="invalid_input")
    assert connecting == []


def test_cancelled_work_sends_nothing(receiver):
    with pytest.raises(Cancelled):
        webhook({"url": receiver.url()}, Ctx(cancelled=True))
    assert receiver.taken == []


@pytest.mark.django_db(transaction=True)
def test_work_is_sent_again_under_the_same_id_no_sooner_than_it_was_asked_to(receiver, command):
    request = command(
        definition_id="webhook",
        input={"url": receiver.url("/503/60"), "body": 1},
        retry_policy=RetryPolicy(initial_delay_ms=0),
    )
    work = services.admit(request, now_ms=now_ms()).workload
    before = now_ms()
    assert Worker(options()).run_once() == 1
    row = Workload.objects.get(pk=work.pk)
    assert row.state == "READY" and row.eligible_at_ms >= before + 60_000
    assert Event.objects.get(workload=work, from_state="FAILED").evidence["delay_ms"] == 60_000
    services.cancel(NAMESPACE, work.workload_id, actor="tests", now_ms=now_ms())

    good = services.admit(
        command("k2", definition_id="webhook", input={"url": receiver.url(), "body": 1}), now_ms=now_ms()
    ).workload
    Worker(options()).run_once()
    assert state_of(good) == "SUCCEEDED" and Result.objects.get(workload=good).output["status"] == 200
    assert [headers["webhook-id"] for _, headers, _ in receiver.taken] == [work.workload_id, good.workload_id]
