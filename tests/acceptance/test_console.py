"""The console beside the operator's journey: who is slower, may only look, has chosen some, or uses no mouse.

The journey itself is `test_console_journey.py`. In a real browser, over a real server and worker; about a minute.
"""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from demo.instance import Instance
from tests.acceptance.browser import browser, sign_in

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

OPERATOR, PASSWORD = "night-shift", "correct horse battery"
WORK_MS = 60_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("console")
    with Instance(data / "data", FELTDB_APPS="demo", DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


def rooms(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Console")


def test_who_is_slower_is_told_how_the_work_stands_now(instance: Instance) -> None:
    key = instance.new_key("state:write", "triggers:write", "workload:create", "workload:read")
    with browser() as seen, instance.client(key) as api:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
        request = {"definition_id": "nobody-runs-this", "idempotency_key": "idle", "input": {"n": 2**63}}
        waiting = api.post("/workloads", json=request).raise_for_status().json()["workload_id"]
        page.goto(f"{instance.url}/admin/workloads/workload/{waiting}/change/")
        page.get_by_text("Cancel this work").click()
        with seen.expecting(409):
            # Somebody else is faster: the page explains, and nothing is done twice.
            instance.manage("workload", "cancel", waiting, "--namespace", "default")
            page.get_by_role("button", name="Cancel the work").click()
        expect(page.get_by_role("alert")).to_contain_text("It is cancelled now")
        seen.shoot("21-somebody-was-faster")

        seen.check()


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


def test_chosen_dead_letters_stay_chosen_while_the_page_lives_and_are_retried_together(instance: Instance) -> None:
    dead = [make_dead(instance, f"chosen-{number}") for number in range(2)]
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
        rooms(page).get_by_role("link", name="Dead letters").click()
        group = page.locator("section.card", has_text="KeyError: 'source'")
        group.get_by_label("Choose all that are shown").check()
        page.wait_for_timeout(6_000)  # one beat of the live part
        assert all(box.is_checked() for box in group.locator("td > input[type=checkbox]").all())
        group.get_by_role("button", name="Retry the chosen").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        seen.shoot("13-retry-chosen")
        page.get_by_role("button", name="Retry 2 workloads").click()
        expect(page.locator("main")).to_contain_text("2 done, 0 refused, 0 left", timeout=WORK_MS)
        for workload_id in dead:
            expect(page.locator("main")).to_contain_text(workload_id)
        seen.check()


def test_a_viewer_sees_and_is_offered_nothing(instance: Instance) -> None:
    dead = make_dead(instance, "viewed")
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
        rooms(page).get_by_role("link", name="Operators").click()
        page.get_by_role("link", name="Make an operator").click()
        page.locator("#id_name").fill("vera")
        page.locator("#id_password").fill(PASSWORD)
        seen.shoot("14-make-an-operator")
        page.get_by_role("button", name="Make the operator").click()
        expect(page.get_by_text("vera can sign in now, as viewer")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        sign_in(page, instance.url, "vera", PASSWORD)
        page.goto(f"{instance.url}/admin/workloads/workload/{dead}/change/")
        expect(page.get_by_role("heading", name="Why it is dead")).to_be_visible()
        expect(page.get_by_text("Retry this work")).to_have_count(0)
        seen.shoot("15-viewer")
        seen.check()


def test_the_keyboard_alone_reaches_and_retries_a_dead_letter(instance: Instance) -> None:
    dead = make_dead(instance, "by-keyboard")
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
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
