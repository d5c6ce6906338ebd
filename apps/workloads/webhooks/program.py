"""The capability `webhook`: POSTs `body` to `url`, and says what an answer or its absence means for the work.

| outcome                                     | failure                  | effect  | by the default policy     |
|---------------------------------------------|--------------------------|---------|---------------------------|
| 2xx                                         | none: `{"status", "url"}`|         |                           |
| 408, 425, 429, 5xx                          | `transient_connection`   | none    | again, after Retry-After  |
| no connection                               | `transient_connection`   | none    | again                     |
| sent, but no status in time                 | `transient_connection`   | unknown | again, as a lost worker   |
| any other status, a redirect that turns GET | `webhook_rejected`       | none    | not again                 |
| not HTTPS, not public, a bad certificate    | `webhook_target_refused` | none    | not again                 |

`webhook-id` is the work's id, the same in every attempt: receivers that remember it take a message once.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from apps.http import strict_json
from apps.workloads import limits
from apps.workloads.capabilities import JSON, Cancelled, Context, Failed, capability
from apps.workloads.clock import now_ms
from apps.workloads.webhooks import sending, signing, targets
from apps.workloads.webhooks.sending import NotSent, OutcomeUnknown
from apps.workloads.webhooks.targets import TargetRefused

DEFAULT_TIMEOUT_MS = 30_000
MIN_TIMEOUT_MS = 100
MAX_TIMEOUT_MS = 120_000
_MEMBERS = frozenset({"url", "body", "timeout_ms"})
_TRY_AGAIN = frozenset({408, 425, 429})


@capability("webhook")
def webhook(input: JSON, context: Context) -> JSON:
    """POST signed JSON. Input `{"url", "body", "timeout_ms"}`; output `{"status", "url"}`."""
    url, body, timeout_ms = _request(input)
    if context.cancelled():
        raise Cancelled
    sent_at_ms = now_ms()
    try:
        target = targets.read(url)
        headers = signing.headers(
            context.namespace,
            target.origin,
            message_id=context.workload_id,
            timestamp_s=sent_at_ms // 1000,
            body=body,
        )
        plain = {"Content-Type": "application/json", "User-Agent": "FeltDB"}
        traced = {"traceparent": context.traceparent} if context.traceparent else {}
        answer = sending.post(target, body, {**plain, **traced, **headers}, timeout_s=timeout_ms / 1000)
    except TargetRefused as error:
        raise Failed("webhook_target_refused", str(error), effect="none") from error
    except NotSent as error:
        raise Failed("transient_connection", str(error), effect="none") from error
    except OutcomeUnknown as error:
        raise Failed("transient_connection", str(error), effect="unknown") from error
    if 200 <= answer.status < 300:
        return {"status": answer.status, "url": answer.url}
    if answer.status in _TRY_AGAIN or answer.status >= 500:
        wait_ms = retry_after_ms(answer.retry_after, now_ms())
        raise Failed(
            "transient_connection", f"{target.host} answered {answer.status}", effect="none", retry_after_ms=wait_ms
        )
    raise Failed("webhook_rejected", f"{target.host} answered {answer.status}", effect="none")


def retry_after_ms(text: str, now: int) -> int | None:
    """Return the milliseconds a Retry-After asks for, seconds or a date, bounded; None where it cannot be read."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, limits.MAX_RETRY_AFTER_MS)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    wait_ms = int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) - now
    return min(max(wait_ms, 0), limits.MAX_RETRY_AFTER_MS)


def _request(input: JSON) -> tuple[str, bytes, int]:
    if not isinstance(input, dict) or not set(input) <= _MEMBERS:
        raise Failed("invalid_input", f"the input is an object of {', '.join(sorted(_MEMBERS))}", effect="none")
    url, timeout_ms = input.get("url"), input.get("timeout_ms", DEFAULT_TIMEOUT_MS)
    if not isinstance(url, str):
        raise Failed("invalid_input", "the input must name a url", effect="none")
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise Failed("invalid_input", "timeout_ms must be a whole number", effect="none")
    if not MIN_TIMEOUT_MS <= timeout_ms <= MAX_TIMEOUT_MS:
        raise Failed("invalid_input", f"timeout_ms must be {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}", effect="none")
    return url, strict_json.dumps(input.get("body")), timeout_ms
