"""A button pressed after the session has ended: nothing is done, the sign-in page says so and leads back."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse

from apps.keys.models import AuditEvent
from apps.workloads.models import Workload

HERE = "http://testserver"


def pressed(client: Client, work: Workload, page: str) -> Any:
    """Retry the work from a page, as a browser sends it."""
    address = reverse("admin:workloads_workload_retry", args=[work.workload_id])
    return client.post(address, {"seen": work.history_length}, headers={"Referer": page})


def page_of(work: Workload) -> str:
    return reverse("admin:workloads_workload_change", args=[work.workload_id])


def test_it_is_told_nothing_is_done_and_signing_in_leads_back_to_the_page(console: Client, make_dead: Any) -> None:
    dead = make_dead()
    page = f"{page_of(dead)}?namespace=test"
    console.logout()
    events = AuditEvent.objects.count()
    answer = pressed(console, dead, HERE + page)
    assert answer.status_code == 302 and answer["Location"].startswith(reverse("admin:login"))
    assert Workload.objects.get(pk=dead.pk).state == "DEAD_LETTER" and AuditEvent.objects.count() == events
    shown = console.get(answer["Location"])
    text = shown.content.decode()
    assert "Nothing was done" in text and 'role="alert"' in text
    form = {"username": "admin", "password": "correct horse battery", "next": shown.context["next"]}
    wrong = console.post(answer["Location"], {**form, "password": "no"})
    assert "Nothing was done" in wrong.content.decode()
    back = console.post(answer["Location"], form)
    assert (back.status_code, back["Location"]) == (302, page)
    assert Workload.objects.get(pk=dead.pk).state == "DEAD_LETTER"
    assert "Retry now" in console.get(back["Location"]).content.decode()


@pytest.mark.parametrize(
    "page", ["", "http://evil.example/admin/", "//evil.example/admin/", f"{HERE}/v1/status", "x\\y"]
)
def test_a_page_that_is_not_ours_is_never_led_back_to(console: Client, make_dead: Any, page: str) -> None:
    dead = make_dead()
    console.logout()
    answer = pressed(console, dead, page)
    (leads_to,) = parse_qs(urlsplit(answer["Location"]).query)["next"]
    assert leads_to == reverse("admin:workloads_workload_retry", args=[dead.workload_id])


def test_the_sign_in_says_nothing_of_the_kind_to_who_merely_opened_a_page(console: Client) -> None:
    console.logout()
    answer = console.get("/admin/workers/", follow=True)
    assert "Nothing was done" not in answer.content.decode()
    assert console.post(reverse("admin:logout"))["Location"] == reverse("admin:index")
