"""How often anybody may fail to sign in, at every door where a password is asked for.

Attempts are counted over all processes: for an account from one address, for an address, for an account. The window
slides: what counts is the last five minutes, in steps of half a minute. An attempt is counted before its password is
hashed and taken back if it was right or had no turn, so that many at once have no more hashes than one after the other.
Beyond a limit nothing is hashed and nothing written: the answer is RATE_LIMITED until enough failures are old, right
password or wrong. A success clears the count of that account from that address. Not here: passwords themselves
(`apps/keys/passwords.py` computes them in turn).
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from django.conf import settings
from django.contrib.auth import authenticate
from django.db import IntegrityError, transaction
from django.db.models import F

from apps.http.errors import ApiError
from apps.keys import limits, passwords
from apps.keys.audit.refusals import address_of
from apps.keys.models import Operator
from apps.keys.sessions.models import FailedSignIn

MOST = {
    "pair": limits.FAILURES_OF_A_PAIR,
    "address": limits.FAILURES_OF_AN_ADDRESS,
    "account": limits.FAILURES_OF_AN_ACCOUNT,
}


def signed_in(username: str, password: str, *, address: str, now_ms: int) -> Operator | None:
    """Return the person, or None: unknown, wrong, stopped.

    Raises ApiError RATE_LIMITED after too many failures, SERVICE_OVERLOADED where too many passwords are being checked.
    """
    subjects = _subjects(username, address_of(address))
    step = now_ms // limits.FAILURE_STEP_MS
    _check(subjects, now_ms)
    _count(subjects, step)
    try:
        _check(subjects, now_ms, counted=1)
        with passwords.of(subjects["account"]):
            person = authenticate(None, username=username, password=password)
    except ApiError:
        _take_back(subjects, step)
        raise
    if not isinstance(person, Operator):
        return None
    _take_back(subjects, step)
    FailedSignIn.objects.filter(kind="pair", subject=subjects["pair"]).delete()
    return person


def _subjects(username: str, address: str) -> Mapping[str, str]:
    account = username.casefold()
    return {
        "pair": _digest(f"{len(account)}:{account}{address}"),
        "address": _digest(address),
        "account": _digest(account),
    }


def _digest(text: str) -> str:
    return hmac.new(settings.SECRET_KEY.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _check(subjects: Mapping[str, str], now_ms: int, *, counted: int = 0) -> None:
    """Raise ApiError RATE_LIMITED beyond a limit; `counted` is 1 once this very attempt is among those counted."""
    rows = FailedSignIn.objects.filter(window__gte=_oldest(now_ms), subject__in=subjects.values()).order_by("window")
    seen: dict[str, list[tuple[int, int]]] = {kind: [] for kind in subjects}
    for kind, subject, window, count in rows.values_list("kind", "subject", "window", "count"):
        if subjects[kind] == subject:
            seen[kind].append((window, count))
    left_ms = max(_free_at_ms(MOST[kind] + counted, found) for kind, found in seen.items()) - now_ms
    if left_ms > 0:
        left_s = -(-left_ms // 1000)
        raise ApiError(
            "RATE_LIMITED",
            f"Signing in failed too often; try again in {left_s} seconds.",
            headers={"Retry-After": str(left_s)},
        )


def _free_at_ms(most: int, counts: Sequence[tuple[int, int]]) -> int:
    """Return when there are fewer than `most` left of (step, count), oldest first; 0 where there are now."""
    over = sum(count for _, count in counts) - most
    free_at_ms = 0
    for step, count in counts:
        if over < 0:
            break
        over -= count
        free_at_ms = (step + 1) * limits.FAILURE_STEP_MS + limits.FAILURE_WINDOW_MS
    return free_at_ms


def _oldest(now_ms: int) -> int:
    """Return the oldest step of which something lies within the window."""
    return (now_ms - limits.FAILURE_WINDOW_MS) // limits.FAILURE_STEP_MS


def _count(subjects: Mapping[str, str], step: int) -> None:
    oldest = _oldest(step * limits.FAILURE_STEP_MS)
    for kind, subject in subjects.items():
        row = {"kind": kind, "subject": subject, "window": step}
        if FailedSignIn.objects.filter(**row).update(count=F("count") + 1):
            continue
        try:
            with transaction.atomic():
                FailedSignIn.objects.create(**row, count=1)
        except IntegrityError:
            FailedSignIn.objects.filter(**row).update(count=F("count") + 1)
        FailedSignIn.objects.filter(window__lt=oldest).delete()


def _take_back(subjects: Mapping[str, str], step: int) -> None:
    for kind, subject in subjects.items():
        FailedSignIn.objects.filter(kind=kind, subject=subject, window=step, count__gt=0).update(count=F("count") - 1)
