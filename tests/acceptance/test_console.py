"""The operator's journey in a real browser, over a real server and a real worker.

Cost: about 40 seconds. Pictures of every page, for review, in tests/screenshots/ (kept out of the repository).
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from demo.instance import Instance
from tests.acceptance.browser import Browser, browser

pytestmark = pytest.mark.acceptance

OPERATOR, PASSWORD = "night-shift", "correct horse battery"
WORK_SECONDS = 30


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with Instance(tmp_path / "data", FELTDB_APPS="demo", DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


def sign_in(page: Page, instance: Instance) -> None:
    page.goto(f"{instance.url}/admin/")
    page.get_by_label("Name").fill(OPERATOR)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def rooms(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Console")


def reload_until(page: Page, seen: Callable[[], bool], what: str) -> None:
    """Reload the page until it shows what is waited for; nobody waits longer than WORK_SECONDS."""
    deadline = time.monotonic() + WORK_SECONDS
    while not seen():
        assert time.monotonic() < deadline, f"{what} did not appear:\n{page.inner_text('main')}"
        time.sleep(0.3)
        page.reload()


def test_an_operator_defines_a_trigger_sees_its_work_reads_why_it_died_and_retries_it(instance: Instance) -> None:
    key = instance.new_key("state:read", "state:write")
    with browser() as seen, instance.client(key) as api:
        page = seen.page
        page.goto(f"{instance.url}/admin/")
        seen.shoot("01-sign-in")
        sign_in(page, instance)
        seen.shoot("02-overview-empty")

        define_with_a_mistake_first(seen)
        seen.check()

        api.put("/collections/settings/compensation", json={"closed_for": "late-1"}).raise_for_status()
        for number, minutes in ((0, 30), (1, 95), (2, 180)):
            record = {"id": f"late-{number}", "carrier": "UA", "arr_delay": minutes}
            api.post("/collections/flights", json=record).raise_for_status()

        rooms(page).get_by_role("link", name="Workloads").click()
        reload_until(page, lambda: page.locator("tbody tr").count() == 2, "work of two late flights")
        reload_until(page, lambda: page.locator("tbody").get_by_text("dead letter").count() == 1, "the dead letter")
        seen.shoot("05-workloads")
        assert page.locator("tbody").get_by_text("succeeded").count() == 1
        seen.check()

        rooms(page).get_by_role("link", name="Overview").click()
        expect(page.locator(".figures .alarm")).to_contain_text("1")
        seen.shoot("06-overview")
        page.locator(".figures .alarm").click()
        expect(page.locator(".error-text")).to_contain_text("nothing is paid out for late-1")
        seen.shoot("07-dead-letters")
        page.locator("tbody th a").click()
        expect(page.get_by_role("heading", name="Why it is dead")).to_be_visible()
        expect(page.locator("main")).to_contain_text("CounterClosed")
        seen.shoot("08-dead-letter")

        api.put("/collections/settings/compensation", json={"closed_for": None}).raise_for_status()
        page.get_by_text("Retry this work").click()
        page.get_by_label("Reason").first.fill("the counter is open again")
        page.get_by_role("button", name="Retry now").click()
        expect(page.get_by_text("Armed again")).to_be_visible()
        reload_until(page, lambda: page.locator(".head .badge").inner_text() == "succeeded", "success")
        expect(page.locator("main")).to_contain_text('"euros": 39')
        expect(page.locator("main")).to_contain_text("the counter is open again")
        seen.shoot("09-retried")

        rooms(page).get_by_role("link", name="Dead letters").click()
        expect(page.get_by_role("heading", name="Nothing is dead")).to_be_visible()
        seen.shoot("10-dead-letters-empty")
        rooms(page).get_by_role("link", name="Triggers").click()
        expect(page.locator("tbody")).to_contain_text("up to date")
        seen.shoot("11-triggers")
        page.get_by_role("link", name="late-flights").click()
        pause_and_resume(page)
        seen.shoot("12-trigger")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
        seen.check()


def define_with_a_mistake_first(seen: Browser) -> None:
    """Fill in the form for a trigger with two mistakes, read what is wrong beside the fields, put it right."""
    page = seen.page
    rooms(page).get_by_role("link", name="Triggers").click()
    seen.shoot("03-triggers-empty")
    page.get_by_role("link", name="Define a trigger").first.click()
    page.locator("#id_trigger_id").fill("late-flights")
    page.get_by_label("Watch this collection").fill("flights")
    page.get_by_label("And this holds of it").fill('{"field": "arr_delay", "op": "gt" "value": 60}')
    page.get_by_label("Run this capability").fill("compensate_delay")
    with seen.expecting(422):
        page.get_by_role("button", name="Define the trigger").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was stored")
    wrong = page.locator(".field-wrong")
    expect(wrong).to_have_count(2)
    expect(wrong.filter(has_text="And this holds of it")).to_contain_text("This is not JSON")
    expect(wrong.filter(has_text="When a record is")).to_contain_text("Choose at least one kind of change")
    seen.shoot("04-trigger-form-wrong")
    page.get_by_label("insert: a record appears").check()
    page.get_by_label("And this holds of it").fill('{"field": "arr_delay", "op": "gt", "value": 60}')
    page.get_by_role("button", name="Define the trigger").click()
    expect(page.get_by_text("late-flights is defined")).to_be_visible()


def pause_and_resume(page: Page) -> None:
    page.get_by_text("Pause…").click()
    page.locator("#reason-pause").fill("looking at it")
    page.get_by_role("button", name="Pause it").click()
    expect(page.get_by_role("heading", name="Why it stands still")).to_be_visible()
    page.get_by_text("Resume…").click()
    page.get_by_role("button", name="Resume it").click()
    expect(page.get_by_text("goes on from where it stood")).to_be_visible()
