"""The operator's journey in a real browser, over a real server and a real worker.

Cost: about a minute. Pictures of every page, for review, in tests/screenshots/ (kept out of the repository).
"""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from demo.instance import Instance
from tests.acceptance.browser import Browser, browser

pytestmark = pytest.mark.acceptance

OPERATOR, PASSWORD = "night-shift", "correct horse battery"
WORK_MS = 30_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("console")
    with Instance(data / "data", FELTDB_APPS="demo", DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


def sign_in(page: Page, instance: Instance, name: str = OPERATOR) -> None:
    page.goto(f"{instance.url}/admin/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def rooms(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Console")


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
        expect(page.locator("tbody tr")).to_have_count(2, timeout=WORK_MS)  # appears by itself: nobody reloads
        expect(page.locator("tbody").get_by_text("dead letter")).to_have_count(1, timeout=WORK_MS)
        expect(page.locator("tbody").get_by_text("succeeded")).to_have_count(1, timeout=WORK_MS)
        seen.shoot("05-workloads")
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
        expect(page.locator("#live")).to_contain_text("workload.completed", timeout=WORK_MS)
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


def make_dead(instance: Instance, name: str) -> str:
    """Ask for work whose input its program cannot read, wait until it is dead, and return its id."""
    with instance.client(instance.new_key("workload:create", "workload:read")) as api:
        request = {"definition_id": "compensate_delay", "idempotency_key": name, "input": {"record": {}}}
        workload_id: str = api.post("/workloads", json=request).raise_for_status().json()["workload_id"]
        deadline = time.monotonic() + WORK_MS / 1000
        while api.get(f"/workloads/{workload_id}").json()["state"] != "DEAD_LETTER":
            assert time.monotonic() < deadline, f"{workload_id} did not die"
            time.sleep(0.2)
    return workload_id


def test_everything_works_without_javascript(instance: Instance) -> None:
    dead = make_dead(instance, "without-javascript")
    with browser(javascript=False) as seen:
        page = seen.page
        sign_in(page, instance)
        page.get_by_label("Find by id").fill(dead)
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("heading", name="Why it is dead")).to_be_visible()
        page.get_by_text("Cancel this work").click()
        page.get_by_role("button", name="Cancel the work").click()
        expect(page.get_by_text("The work is cancelled")).to_be_visible()
        seen.check()


def test_chosen_dead_letters_stay_chosen_while_the_page_lives_and_are_retried_together(instance: Instance) -> None:
    dead = [make_dead(instance, f"chosen-{number}") for number in range(2)]
    with browser() as seen:
        page = seen.page
        sign_in(page, instance)
        rooms(page).get_by_role("link", name="Dead letters").click()
        page.get_by_label("Choose all that are shown").first.check()
        page.wait_for_timeout(6_000)  # one beat of the live part
        assert all(box.is_checked() for box in page.locator("td > input[type=checkbox]").all())
        page.get_by_role("button", name="Retry the chosen").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        seen.shoot("13-retry-chosen")
        page.get_by_role("button", name="Retry 2 dead letters").click()
        expect(page.get_by_role("heading", name="2 of 2 armed again")).to_be_visible()
        for workload_id in dead:
            expect(page.locator("main")).to_contain_text(workload_id)
        seen.check()


def test_a_viewer_sees_and_is_offered_nothing(instance: Instance) -> None:
    dead = make_dead(instance, "viewed")
    with browser() as seen:
        page = seen.page
        sign_in(page, instance)
        rooms(page).get_by_role("link", name="Operators").click()
        page.get_by_role("link", name="Make an operator").click()
        page.locator("#id_name").fill("vera")
        page.locator("#id_password").fill(PASSWORD)
        seen.shoot("14-make-an-operator")
        page.get_by_role("button", name="Make the operator").click()
        expect(page.get_by_text("vera can sign in now, as viewer")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        sign_in(page, instance, "vera")
        page.goto(f"{instance.url}/admin/workloads/workload/{dead}/change/")
        expect(page.get_by_role("heading", name="Why it is dead")).to_be_visible()
        expect(page.get_by_text("Retry this work")).to_have_count(0)
        seen.shoot("15-viewer")
        seen.check()


def test_the_keyboard_alone_reaches_and_retries_a_dead_letter(instance: Instance) -> None:
    dead = make_dead(instance, "by-keyboard")
    with browser() as seen:
        page = seen.page
        sign_in(page, instance)
        page.goto(f"{instance.url}/admin/workloads/workload/{dead}/change/")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the page's content")).to_be_focused()
        page.keyboard.press("Enter")
        press_until(page, "Retry this work…")
        page.keyboard.press("Enter")
        press_until(page, "Retry now")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Armed again")).to_be_visible()
        seen.check()


def press_until(page: Page, text: str) -> None:
    """Press Tab until the element with that text has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    raise AssertionError(f"no Tab reaches {text}")
