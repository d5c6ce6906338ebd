"""Signing in to the console leads into the console."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough pass phrase"


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example/admin/", "/\\evil.example"])
def test_a_target_elsewhere_is_left_out_and_signing_in_leads_to_the_console(target: str) -> None:
    get_user_model().objects.create_superuser("ada", password=PASSWORD)
    answer = Client().post("/admin/login/", {"username": "ada", "password": PASSWORD, "next": target})
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
