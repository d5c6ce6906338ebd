"""What somebody can do with a copy of the database: nothing that lies in it opens a door."""

import base64
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.keys import services, verify
from apps.keys.clock import now_ms, utc_now
from apps.keys.principal import operator
from apps.keys.sessions import services as sessions


def texts(value: Any) -> Iterator[str]:
    """Give every text within a value of a row, and bytes in the spellings that somebody would try."""
    if isinstance(value, bytes | memoryview):
        raw = bytes(value)
        yield from (raw.hex(), base64.urlsafe_b64encode(raw).decode().rstrip("="), raw.decode("latin-1"))
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from texts(name)
            yield from texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from texts(member)
    elif value is not None:
        yield str(value)


def everything_kept() -> set[str]:
    """Return every text in every row of every table."""
    return {
        text
        for model in apps.get_models()
        for row in model._default_manager.values_list()
        for value in row
        for text in texts(value)
    }


def test_nothing_that_lies_in_the_database_is_a_key_a_session_or_a_cookie(
    make_key: Callable[..., Any], namespace: str, django_user_model: Any
) -> None:
    ada = django_user_model.objects.create_superuser("ada", password="a long enough pass phrase")
    issued = make_key()
    rotated = services.rotate_key(issued.key.id, by=operator("tests"), grace=timedelta(hours=1))
    opened = sessions.open_session(ada, now_ms=now_ms())
    console = Client()
    console.force_login(ada)
    cookie = console.cookies[settings.SESSION_COOKIE_NAME].value
    kept = everything_kept()
    assert {issued.key.id, opened.session.pk, "ada"} <= kept, "the rows were not read: this would prove nothing"

    def is_bearer(text: str) -> bool:
        return verify.principal_of(text, now=utc_now()) is not None

    def is_cookie(text: str) -> bool:
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = text
        return client.get(reverse("admin:index")).status_code == 200

    assert is_bearer(issued.secret) and is_bearer(rotated.secret) and is_bearer(opened.secret) and is_cookie(cookie)
    ids = (issued.key.id, opened.session.pk)
    tried = kept | {f"fdb_{kind}_{name}_{text}" for kind in ("live", "session") for name in ids for text in kept}
    assert [text for text in tried if is_bearer(text)] == []
    assert [text for text in kept if 8 <= len(text) <= 200 and text.isprintable() and is_cookie(text)] == []
