"""The constraints carry the invariants: each is broken here on purpose."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.keys import services
from apps.keys.models import ApiKey, KeySecret, Namespace

pytestmark = pytest.mark.django_db

NOW = services.utc_now()


def key(**members: Any) -> ApiKey:
    return ApiKey.objects.create(
        **{
            "id": "k1",
            "name": "a key",
            "namespaces": ["a"],
            "scopes": ["state:read"],
            "created_at": NOW,
            "created_by": "human:x",
            **members,
        }
    )


def refused(constraint: str, make: Any) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        make()


@pytest.mark.parametrize(
    ("constraint", "members"),
    [
        ("key_has_a_name", {"name": ""}),
        ("key_worker_id_is_a_workers", {"worker_id": "w1"}),
        ("key_kind_is_known", {"kind": "root"}),
        ("key_revoked_by_and_when", {"revoked_at": NOW}),
        ("key_revoked_by_and_when", {"revoked_by": "human:x"}),
    ],
)
def test_a_key_that_cannot_be_is_refused_by_the_database(constraint: str, members: dict[str, Any]) -> None:
    refused(constraint, lambda: key(**members))


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a/b", "ä", "a\n"])
def test_a_namespace_of_another_form_is_refused_by_the_database(name: str) -> None:
    refused("namespace_name_form", lambda: Namespace.objects.create(name=name, created_at=NOW))


def test_a_key_has_one_current_secret_and_room_for_an_older_one() -> None:
    members = {"key": key(), "digest": b"d" * 32, "pepper_version": 1, "created_at": NOW}
    KeySecret.objects.create(**members)
    KeySecret.objects.create(**members, ends_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        KeySecret.objects.create(**members)


def test_a_secret_never_ends_before_it_began() -> None:
    from datetime import timedelta

    members = {"key": key(), "digest": b"d" * 32, "pepper_version": 1, "created_at": NOW}
    refused(
        "key_secret_ends_after_it_began",
        lambda: KeySecret.objects.create(**members, ends_at=NOW - timedelta(seconds=1)),
    )


def test_the_models_and_the_migrations_agree() -> None:
    from django.core.management import call_command

    call_command("makemigrations", "keys", check=True, dry_run=True, verbosity=0)
