"""One event a line, with the request's id, as text or JSON; and never a secret."""

import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from apps.http import logs, request_id
from apps.operations.middleware import ObservationMiddleware, access

SECRET = "fdb_live_0123456789ab_" + "Z" * 49


@pytest.fixture
def logged() -> Iterator[Callable[..., str]]:
    """A function that logs one event and returns the line: `logged("json", "message", extra={...})`."""
    logger = logging.getLogger("feltdb.test-of-logs")
    logger.propagate = False

    def log(form: str, message: str, *arguments: Any, **named: Any) -> str:
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logs.TextFormatter() if form == "text" else logs.OneLineJson())
        handler.addFilter(logs.RequestId())
        logger.handlers = [handler]
        logger.warning(message, *arguments, **named)
        return stream.getvalue()

    yield log
    logger.handlers = []


def test_a_json_line_has_instant_level_logger_message_members_and_request_id(logged: Callable[..., str]) -> None:
    token = request_id.set_current("req_1")
    try:
        line = logged("json", "moved %d rows\nand more", 3, extra={"namespace": "shop", "rows": 3})
    finally:
        request_id.reset(token)
    assert line.count("\n") == 1
    event = json.loads(line)
    assert event.pop("at").endswith("Z")
    assert event == {
        "level": "warning",
        "logger": "feltdb.test-of-logs",
        "message": "moved 3 rows\nand more",
        "request_id": "req_1",
        "namespace": "shop",
        "rows": 3,
    }


def test_a_text_line_says_the_same_and_stays_one_line(logged: Callable[..., str]) -> None:
    line = logged("text", "two\nlines", extra={"namespace": "shop"})
    assert line.count("\n") == 1 and "two\\nlines namespace=shop" in line and "WARNING" in line


def test_a_traceback_is_a_member_of_the_json_event(logged: Callable[..., str]) -> None:
    try:
        raise ValueError("a defect")
    except ValueError:
        event = json.loads(logged("json", "failed", exc_info=True))
    assert "ValueError: a defect" in event["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"key {SECRET} was used",
        'password="correct horse battery"',
        "postgres://feltdb:correct-horse-battery@host/db",
        "?access_token=correct-horse-battery&a=b",
    ],
)
def test_secrets_are_blotted_out_wherever_they_stand(logged: Callable[..., str], form: str, text: str) -> None:
    lines = logged(form, text) + logged(form, "x", extra={"said": text})
    try:
        raise RuntimeError(text)
    except RuntimeError:
        lines += logged(form, "failed", exc_info=True)
    for secret in ("Z" * 20, "correct", "horse-battery"):
        assert secret not in lines
    assert "[REDACTED]" in lines


def test_a_key_keeps_its_public_id_and_a_fencing_token_is_no_secret() -> None:
    assert logs.redacted(SECRET) == "fdb_live_0123456789ab_[REDACTED]"
    assert logs.redacted("fencing_token=1234567890") == "fencing_token=1234567890"


TRACED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.django_db
def test_each_request_is_one_event_with_its_route_status_and_key(
    api: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ACCESS_LOG = True
    client = api()
    client.handler.load_middleware()
    with caplog.at_level(logging.INFO, logger=access.name):
        client.get(
            "/v1/collections/orders/none?token=hidden-value", headers={"X-Request-ID": "mine", "traceparent": TRACED}
        )
    (event,) = [record for record in caplog.records if record.name == access.name]
    assert event.route == "/v1/collections/<str:collection>/<str:record>"  # type: ignore[attr-defined]
    assert (event.status, event.code, event.method) == (404, "NOT_FOUND", "GET")  # type: ignore[attr-defined]
    assert event.traceparent == TRACED  # type: ignore[attr-defined]
    assert event.duration_ms >= 0 and "hidden-value" not in str(event.__dict__)  # type: ignore[attr-defined]
    assert ObservationMiddleware is not None and isinstance(client, Client)


def test_the_configuration_is_one_logging_takes_in_both_forms() -> None:
    for form in ("text", "json"):
        logging.config.DictConfigurator(logs.configuration(form, "INFO"))


@pytest.mark.django_db
def test_refusals_fill_no_log_and_failures_do(api: Any, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    from apps.operations.admission import Admission, Lane

    client = api()
    monkeypatch.setattr(Admission, "enter", lambda self, lane: lane is Lane.PROBE)
    with caplog.at_level(logging.DEBUG, logger="django.request"):
        assert client.get("/v1/revision").status_code == 503
        assert not [record for record in caplog.records if record.name == "django.request"]
        logging.getLogger("django.request").error("Internal Server Error", extra={"status_code": 500})
    assert [record.status_code for record in caplog.records if record.name == "django.request"] == [500]


def test_a_refused_host_name_is_no_error_of_the_server_and_a_refused_form_stays_visible() -> None:
    loggers = logs.configuration("text", "INFO")["loggers"]

    # Anybody can send any Host: a stack for each would let strangers fill the disk.
    assert loggers["django.security"]["level"] == "CRITICAL"
    assert loggers["django.security.csrf"]["level"] == "INFO"
