"""The console's sessions at rest: what lies in the database is not what the browser's cookie says."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.keys.console_store import SessionStore, name_of


@pytest.fixture
def signed_in(db: None, django_user_model: Any) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("ada"))
    return client


def opens(cookie: str) -> bool:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = cookie
    return client.get(reverse("admin:index")).status_code == 200


def test_nothing_that_the_database_keeps_of_a_session_opens_it(signed_in: Client) -> None:
    cookie = signed_in.cookies[settings.SESSION_COOKIE_NAME].value
    (kept,) = Session.objects.all()
    assert opens(cookie)
    assert kept.session_key == name_of(cookie) != cookie
    assert not opens(kept.session_key) and not opens(kept.session_data)
    assert cookie not in repr(vars(kept)) and cookie not in repr(kept.get_decoded())


def test_signing_out_ends_the_row_and_an_expired_row_opens_nothing(signed_in: Client) -> None:
    cookie = signed_in.cookies[settings.SESSION_COOKIE_NAME].value
    Session.objects.update(expire_date=timezone.now())
    assert not opens(cookie)
    Session.objects.update(expire_date=timezone.now() + timedelta(hours=1))
    assert opens(cookie)
    signed_in.logout()
    assert not opens(cookie) and not Session.objects.exists()


def test_a_key_that_nobody_was_given_is_never_taken_over(db: None) -> None:
    chosen = "chosen-by-somebody-else-0123456789"
    store = SessionStore(chosen)
    store["planted"] = True
    store.save()
    given = str(store.session_key)
    assert given != chosen and SessionStore(chosen).load() == {} and not store.exists(chosen)
    assert store.exists(given) and SessionStore(given).load() == {"planted": True}
    store.cycle_key()
    assert not store.exists(given) and store.exists(str(store.session_key))


def test_the_asynchronous_half_keeps_no_cookie_either(db: None) -> None:
    from asgiref.sync import async_to_sync

    with pytest.raises(ImproperlyConfigured):
        async_to_sync(SessionStore().acreate_model_instance)({})
