"""How often anybody may fail to sign in, at every door where a password is asked for.

Failures are counted over all processes in windows: for an account from one address, for an address, for an account.
Beyond a limit nothing is hashed and nothing written: the answer is RATE_LIMITED until the window ends, right password
or wrong. A success clears the count of that account from that address. Not here: passwords themselves
(`apps/keys/passwords.py` computes them in turn).
"""

import hashlib
import hmac
from collections.abc import Mapping

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
    window = now_ms // limits.FAILURE_WINDOW_MS
    _check(subjects, window, now_ms)
    with passwords.of(subjects["account"]):
        person = authenticate(None, username=username, password=password)
    if not isinstance(person, Operator):
        _count(subjects, window)
        return None
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


def _check(subjects: Mapping[str, str], window: int, now_ms: int) -> None:
    rows = FailedSignIn.objects.filter(window=window, subject__in=subjects.values())
    counts = rows.values_list("kind", "subject", "count")
    if any(subjects[kind] == subject and count >= MOST[kind] for kind, subject, count in counts):
        left_s = -(-((window + 1) * limits.FAILURE_WINDOW_MS - now_ms) // 1000)
        raise ApiError(
            "RATE_LIMITED",
            f"Signing in failed too often; try again in {left_s} seconds.",
            headers={"Retry-After": str(left_s)},
        )


def _count(subjects: Mapping[str, str], window: int) -> None:
    for kind, subject in subjects.items():
        row = {"kind": kind, "subject": subject, "window": window}
        if FailedSignIn.objects.filter(**row).update(count=F("count") + 1):
            continue
        try:
            with transaction.atomic():
                FailedSignIn.objects.create(**row, count=1)
        except IntegrityError:
            FailedSignIn.objects.filter(**row).update(count=F("count") + 1)
        FailedSignIn.objects.filter(window__lt=window).delete()
