"""Refusals of authority, recorded on their way out; and floods of them, counted and sampled so that they are no load.

A caller with a key leaves a row for each refusal, up to a limit a minute. A caller without a valid key leaves rows
at the 1st, 10th, 100th, ... refusal of its address within the minute. Every row says how many refusals it stands
for; what is counted and not yet written is written by the first refusal of a later minute, and lost with the
process. So any number of requests makes a bounded number of rows, and the counts add up.
"""

import ipaddress
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import DatabaseError, InterfaceError, transaction
from rest_framework.response import Response

from apps.http import exceptions
from apps.http.codes import CODES
from apps.keys.audit import limits
from apps.keys.audit.masking import safe
from apps.keys.audit.models import AuditEvent
from apps.keys.principal import Principal

logger = logging.getLogger("feltdb.audit")

OTHERS = "others"
"""The address, or key, under which refusals beyond the number told apart are counted."""

_MORE_CODES = frozenset({"GRANT_INVALID", "TRIGGER_UNAUTHORIZED"})
_MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One refusal: of whom, for what, why."""

    code: str
    reason: str
    target: str
    request_id: str
    address: str
    principal: Principal | None
    namespace: str
    at_ms: int
    count: int = 1


class Tally:
    """Counts refusals of one minute by who was refused, and says which are written. One for each process."""

    def __init__(self, *, full_rows: int, told_apart: int) -> None:
        self._full_rows = full_rows
        self._told_apart = told_apart
        self._minute = -1
        self._seen: dict[str, int] = {}
        self._waiting: dict[str, Refusal] = {}
        self._turn = threading.Lock()

    def note(self, who: str, refusal: Refusal) -> list[Refusal]:
        """Count one refusal and return what is to be written now, each with the number it stands for."""
        with self._turn:
            due = self._begin(refusal.at_ms // _MINUTE_MS)
            if who not in self._seen and len(self._seen) >= self._told_apart:
                who = OTHERS
                refusal = replace(refusal, principal=None, namespace="", address=OTHERS)
            number = self._seen[who] = self._seen.get(who, 0) + 1
            waiting = self._waiting.pop(who, None)
            refusal = replace(refusal, count=1 + (waiting.count if waiting else 0))
            if number <= self._full_rows or _is_power_of_ten(number):
                due.append(refusal)
            else:
                self._waiting[who] = refusal
            return due

    def rest(self) -> list[Refusal]:
        """Return what was counted and not yet written, and forget the minute."""
        with self._turn:
            return self._begin(-1)

    def _begin(self, minute: int) -> list[Refusal]:
        if minute == self._minute:
            return []
        due = list(self._waiting.values())
        self._minute = minute
        self._seen, self._waiting = {}, {}
        return due


unknown_callers = Tally(full_rows=1, told_apart=limits.MAX_ADDRESSES_A_MINUTE)
known_callers = Tally(full_rows=limits.FULL_ROWS_A_MINUTE, told_apart=limits.MAX_KEYS_A_MINUTE)


def exception_handler(exception: Exception, context: dict[str, Any]) -> Response:
    """DRF's hook: the one refusal (`apps.http.exceptions`), recorded where it is one of authority."""
    answer = exceptions.exception_handler(exception, context)
    body: Any = answer.data
    if is_of_authority(str(body["code"])):
        note(_refusal_of(context["request"], body))
    return answer


def is_of_authority(code: str) -> bool:
    """Tell whether a refusal with this code says that somebody may not, or is not who they say."""
    return code in _MORE_CODES or CODES[code].status in (401, 403)


def note(refusal: Refusal) -> None:
    """Count the refusal and write what is due. A database that cannot take it is logged, and changes no answer."""
    principal = refusal.principal
    if principal is None:
        due = unknown_callers.note(refusal.address, refusal)
    else:
        due = known_callers.note(principal.key_id or principal.label, refusal)
    _write(due)


def write_rest() -> None:
    """Write what this process has counted and not yet written."""
    _write([*unknown_callers.rest(), *known_callers.rest()])


def address_of(text: str) -> str:
    """Return the address that refusals are counted by: IPv4 whole, IPv6 by its /64, which is what one caller has."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "unknown"
    if address.version == 4:
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((address, 64), strict=False))


def _refusal_of(request: Any, body: Mapping[str, Any]) -> Refusal:
    return Refusal(
        code=str(body["code"]),
        reason=" ".join(str(part) for part in (body.get("reason"), body["message"]) if part),
        target=f"{request.method} {request.path}",
        request_id=str(body["request_id"]),
        address=address_of(request.META.get("REMOTE_ADDR") or ""),
        principal=getattr(request, "principal", None),
        namespace=getattr(request, "namespace", ""),
        at_ms=time.time_ns() // 1_000_000,
    )


def _write(due: list[Refusal]) -> None:
    if not due:
        return
    try:
        with transaction.atomic():
            AuditEvent.objects.bulk_create([_event(refusal) for refusal in due])
    except (DatabaseError, InterfaceError) as error:
        logger.error("%d refusals not recorded: %s", sum(refusal.count for refusal in due), error)


def _event(refusal: Refusal) -> AuditEvent:
    principal = refusal.principal
    return AuditEvent(
        at_ms=refusal.at_ms,
        namespace=refusal.namespace,
        principal_kind=principal.kind if principal else "",
        subject=safe(principal.label, limits.MAX_SUBJECT_CHARS) if principal else "",
        key_id=principal.key_id if principal else "",
        address=refusal.address,
        action="request.refused" if principal else "authentication.refused",
        target=safe(refusal.target, limits.MAX_TARGET_CHARS),
        outcome=AuditEvent.Outcome.DENIED,
        code=refusal.code,
        reason=safe(refusal.reason, limits.MAX_REASON_CHARS),
        request_id=safe(refusal.request_id, limits.MAX_REQUEST_ID_CHARS),
        count=refusal.count,
    )


def _is_power_of_ten(number: int) -> bool:
    return str(number).strip("0") == "1"
