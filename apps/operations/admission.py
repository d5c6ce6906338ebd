"""Who may come in now: permits that are tried and never waited for, in lanes.

The store takes writes one after the other and Python works on one request at a time, so more requests in flight only
hide the queue. Health, metrics and status hold no permit and are never refused; the console has permits of its own,
and so has signing in, at the console too, which waits for memory-hard hashes: a flood of passwords takes no permit from
whoever has a key and none from whoever is at the console.
"""

import threading
from enum import StrEnum

from django.http import HttpRequest

from apps.http.console import is_console
from apps.http.errors import ApiError

FULL = "server is at its in-flight request limit"
"""The reference's own words."""

NEVER_SHED = frozenset(
    {"/health", "/v1/health", "/health/ready", "/v1/health/ready", "/ready", "/metrics", "/v1/status"}
)
"""The paths of probes. What they cost is bounded by their own time limits."""

SIGN_IN = frozenset({("POST", "/v1/auth/signin"), ("POST", "/admin/login/")})
"""Where passwords are tried, by whoever wants to. To see the console's form is the console's own affair."""

CONSOLE_WAIT_S = 1.0
"""A person waits this long for a console permit rather than see a refusal."""


class Lane(StrEnum):
    """Which permits a request draws on."""

    PROBE = "probe"
    CONSOLE = "console"
    SIGN_IN = "sign-in"
    API = "api"


def lane_of(request: HttpRequest) -> Lane:
    """Return the lane of a request."""
    if request.path_info in NEVER_SHED:
        return Lane.PROBE
    if (request.method, request.path_info) in SIGN_IN:
        return Lane.SIGN_IN
    return Lane.CONSOLE if is_console(request) else Lane.API


class Admission:
    """The permits of one process."""

    def __init__(
        self, *, permits: int, console_permits: int, sign_in_permits: int, console_wait_s: float = CONSOLE_WAIT_S
    ) -> None:
        if permits < 1 or console_permits < 1 or sign_in_permits < 1:
            raise ValueError("an instance that admits nothing cannot serve")
        self._api = threading.BoundedSemaphore(permits)
        self._sign_in = threading.BoundedSemaphore(sign_in_permits)
        self._console = threading.BoundedSemaphore(console_permits)
        self._console_wait_s = console_wait_s

    def enter(self, lane: Lane) -> bool:
        """Take a permit of the lane; False where there is none. Only the console waits, and not for long."""
        if lane is Lane.PROBE:
            return True
        if lane is Lane.CONSOLE:
            return self._console.acquire(timeout=self._console_wait_s)
        if lane is Lane.SIGN_IN:
            return self._sign_in.acquire(blocking=False)
        return self._api.acquire(blocking=False)

    def leave(self, lane: Lane) -> None:
        """Give the permit back."""
        if lane is Lane.API:
            self._api.release()
        elif lane is Lane.CONSOLE:
            self._console.release()
        elif lane is Lane.SIGN_IN:
            self._sign_in.release()


def overloaded() -> ApiError:
    """Return the refusal of a request for which there is no permit."""
    return ApiError("SERVICE_OVERLOADED", FULL, headers={"Retry-After": "1"}, reason="IN_FLIGHT_LIMIT", committed=False)
