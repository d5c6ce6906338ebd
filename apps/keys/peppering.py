"""What can happen to peppers: list, rotate, drop; and whether each still is the pepper it was.

Every pepper that a digest is made under leaves its fingerprint in the database, so that a database restored without
its secrets is noticed and named, instead of every key being unknown. The secrets themselves are in `peppers.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet

from apps.keys import peppers
from apps.keys.audit.services import record
from apps.keys.models import KeySecret, PepperRecord
from apps.keys.principal import Principal


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A pepper and what is kept under it. `present`: it is here; `genuine`: and it is the one it was."""

    version: int
    current: bool
    present: bool
    genuine: bool
    live_secrets: int


def standings(*, now: datetime) -> Sequence[Standing]:
    """Return every pepper there is or should be, by version."""
    known = peppers.known()
    recorded = dict(PepperRecord.objects.values_list("version", "fingerprint"))
    kept = dict(_live(now).exclude(pepper_version=0).values_list("pepper_version").annotate(Count("id")).order_by())
    return [
        Standing(
            version=version,
            current=version == known.current,
            present=version in known.by_version,
            genuine=version in known.by_version
            and recorded.get(version, known.fingerprint(version)) == known.fingerprint(version),
            live_secrets=kept.get(version, 0),
        )
        for version in sorted({*known.by_version, *recorded, *kept})
    ]


def record_in_use(version: int, *, now: datetime) -> None:
    """Note, in the caller's transaction, that a digest is made under the pepper.

    Raises PepperRefused where it is another than digests of this version were made under.
    """
    fingerprint = peppers.known().fingerprint(version)
    found, _ = PepperRecord.objects.get_or_create(
        version=version, defaults={"fingerprint": fingerprint, "created_at": now}
    )
    if found.fingerprint != fingerprint:
        raise peppers.PepperRefused(
            f"the pepper of version {version} is another than the one that keys were made under; "
            "restore the instance's secrets, or give up those keys: manage.py keys pepper rotate"
        )


def rotate(*, by: Principal, now: datetime) -> int:
    """Make a new current pepper and return its version. Keys go on under the old one until they are used.

    Raises PepperRefused.
    """
    highest = PepperRecord.objects.aggregate(highest=Max("version"))["highest"] or 0
    version = max(highest, peppers.known().current) + 1
    peppers.add(version)
    with transaction.atomic():
        record_in_use(version, now=now)
        record(by, "pepper.rotated", target=f"pepper {version}")
    return version


def drop(version: int, *, by: Principal, now: datetime) -> None:
    """Destroy an older pepper that nothing live is kept under. Raises PepperRefused."""
    live = _live(now).filter(pepper_version=version).count()
    if live:
        raise peppers.PepperRefused(
            f"{live} live secrets are kept under pepper {version}: they move to the current one when they are used; "
            "rotate or revoke those keys to be done sooner"
        )
    peppers.remove(version)
    with transaction.atomic():
        PepperRecord.objects.filter(version=version).delete()
        record(by, "pepper.dropped", target=f"pepper {version}")


def _live(now: datetime) -> "QuerySet[KeySecret]":
    return KeySecret.objects.filter(
        Q(ends_at__isnull=True) | Q(ends_at__gt=now),
        Q(key__expires_at__isnull=True) | Q(key__expires_at__gt=now),
        key__revoked_at__isnull=True,
    )
