"""Retry policy and deadlines of a definition: JSON in, the work's own values out. Not here: their ranges, which are
the work's to check.
"""

from collections.abc import Mapping
from typing import Any

from apps.triggers.errors import TriggerInvalid
from apps.workloads.commands import RetryPolicy, Timeouts

_COUNTS = ("max_attempts", "initial_delay_ms", "max_delay_ms")
_DEADLINES = ("queue_ms", "claim_ms", "execution_ms", "heartbeat_ms", "overall_ms", "approval_ms")


def read_retry_policy(value: Any) -> RetryPolicy:
    """Read a retry policy; null is the default one, and a member that is not given has its default.

    Raises `TriggerInvalid` with the pointer of what is wrong.
    """
    members = _members(value, "retry_policy", (*_COUNTS, "backoff", "retry_on"))
    given: dict[str, Any] = {name: _integer(members, "retry_policy", name) for name in _COUNTS if name in members}
    if "backoff" in members:
        given["backoff"] = members["backoff"]
    if "retry_on" in members:
        kinds = members["retry_on"]
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise _invalid("must be a list of failure kinds", "retry_policy", "retry_on")
        given["retry_on"] = frozenset(kinds)
    return RetryPolicy(**given)


def read_timeouts(value: Any) -> Timeouts:
    """Read deadlines; null, and what is not given, mean none. Raises `TriggerInvalid` with the pointer."""
    members = _members(value, "timeouts", _DEADLINES)
    return Timeouts(**{name: _integer(members, "timeouts", name) for name in members})


def _members(value: Any, field: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that are given, those of null left out."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TriggerInvalid(f"{field} is an object", field=field)
    for name in value:
        if name not in known:
            raise _invalid(f"is unknown; known are {', '.join(known)}", field, name)
    return {name: member for name, member in value.items() if member is not None}


def _integer(members: Mapping[str, Any], field: str, name: str) -> int:
    value = members[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _invalid("must be a whole number", field, name)
    return value


def _invalid(message: str, field: str, name: str) -> TriggerInvalid:
    return TriggerInvalid(f"{field}.{name} {message}", field=field, pointer=f"/{field}/{name}")
