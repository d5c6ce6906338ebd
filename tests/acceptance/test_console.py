"""The operator's whole journey in a real browser, over a real server and a real worker.

Cost: about 80 s in all, most of it 1,200 dead letters and their retries. Pictures of every step, for review, in
tests/screenshots/ (kept out of the repository); `make screenshots` chooses those of docs/operators.md from them.
"""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from demo.instance import Instance
from tests.acceptance.browser import Browser, browser

pytestmark = pytest.mark.acceptance

OPERATOR, PASSWORD = "night-shift", "correct horse battery"
WORK_MS = 30_000
BULK_MS = 150_000
MANY = 1_200
ATTEMPTS = """
from apps.workloads.models import Attempt, Workload
rows = Workload.objects.filter(trigger="state_change:bad-claims")
print(rows.filter(state="DEAD_LETTER").count(), Attempt.objects.filter(workload__in=rows).count())
"""


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
    with browser() as seen:
        page = seen.page
        page.goto(f"{instance.url}/admin/")
        seen.shoot("01-sign-in")
        sign_in(page, instance)
        seen.shoot("02-overview-empty")
        api = instance.client(issue_a_key(page))

        early = {"id": "early-0", "carrier": "UA", "arr_delay": 61}
        api.post("/collections/flights", json=early).raise_for_status()
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
        say_why_it_did_not_fire(seen)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
        seen.check()
        api.close()


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
    page.get_by_role("button", name="Dry run over recent changes").click()
    expect(page.get_by_role("status").filter(has_text="nothing was stored")).to_contain_text("1 of 1 change")
    seen.shoot("04-trigger-form-tried")
    page.get_by_role("button", name="Define the trigger").click()
    expect(page.get_by_text("late-flights is defined")).to_be_visible()


def issue_a_key(page: Page) -> str:
    """Issue a key by form and return its secret, which is shown once."""
    rooms(page).get_by_role("link", name="API keys").click()
    page.get_by_role("link", name="Issue an API key").first.click()
    page.locator("#id_name").fill("the journey")
    for scope in ("state:read", "state:write", "triggers:write", "triggers:read", "workload:create", "workload:read"):
        page.get_by_label(f"{scope}:").check()
    page.get_by_role("button", name=re.compile("Issue")).click()
    found = re.search(r"fdb_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", page.content())
    assert found is not None
    return found.group()


def say_why_it_did_not_fire(seen: Browser) -> None:
    """From a trigger's page: choose a change it let pass, and read the clause that did not hold."""
    page = seen.page
    page.get_by_role("link", name="Why did it not fire?").click()
    page.get_by_role("link", name="flights:late-0").first.click()
    expect(page.get_by_role("heading", name="It made no work")).to_be_visible()
    expect(page.locator("main")).to_contain_text("the predicate does not hold")
    expect(page.get_by_role("row", name=re.compile('"value":60'))).to_contain_text("30")
    seen.shoot("12-trigger-why")
    page.get_by_role("link", name="late-flights", exact=True).click()


def pause_and_resume(page: Page) -> None:
    page.get_by_text("Pause…").click()
    page.locator("#reason-pause").fill("looking at it")
    page.get_by_role("button", name="Pause it").click()
    expect(page.get_by_role("heading", name="Why it stands still")).to_be_visible()
    page.get_by_text("Resume…").click()
    page.get_by_role("button", name="Resume it").click()
    expect(page.get_by_text("goes on from where it stood")).to_be_visible()


def test_1200_dead_letters_are_retried_once_each_and_a_bulk_action_is_stopped(instance: Instance) -> None:
    key = instance.new_key("state:read", "state:write", "triggers:write", "workload:create")
    with browser() as seen, instance.client(key) as api:
        page = seen.page
        sign_in(page, instance)
        trigger = {
            "trigger_id": "bad-claims",
            "source_collection": "claims",
            "change_kind": "insert",
            "target_capability": "compensate_delay",
        }
        api.post("/triggers", json=trigger).raise_for_status()
        claims = [{"collection": "claims", "id": f"c-{number}", "value": {"n": number}} for number in range(MANY)]
        api.post("/transactions", json={"transactionId": "claims", "operations": claims}).raise_for_status()
        wait_for_all_dead(instance, MANY)

        rooms(page).get_by_role("link", name="Dead letters").click()
        group = page.locator("section.card", has_text="KeyError")
        expect(group).to_contain_text("dead")
        seen.shoot("16-dead-letters-many")
        group.get_by_role("button", name="Retry all like these").click()
        expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
        expect(page.locator("main")).to_contain_text(f"{MANY} dead letters")
        page.get_by_label("Reason").fill("the form was corrected")
        seen.shoot("17-bulk-draft")
        page.get_by_role("button", name=f"Retry {MANY} workloads").dblclick()
        expect(page.get_by_role("heading", name="Progress")).to_be_visible()
        expect(page.locator("main")).to_contain_text(re.compile(r"[1-9]\d* of 1200"), timeout=BULK_MS)
        seen.shoot("18-bulk-progress")
        expect(page.locator("main")).to_contain_text(f"{MANY} done, 0 refused, 0 left", timeout=BULK_MS)
        seen.shoot("19-bulk-done")
        seen.check()
        wait_for_all_dead(instance, 2 * MANY)  # each has failed again, once: nothing is retried twice
        rooms(page).get_by_role("link", name="Bulk actions").click()
        expect(page.locator("tbody tr")).to_have_count(1)

        rooms(page).get_by_role("link", name="Dead letters").click()
        page.locator("section.card", has_text="KeyError").get_by_role("button", name="Retry all like these").click()
        page.get_by_role("button", name=f"Retry {MANY} workloads").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("heading", name="Stopped")).to_be_visible(timeout=WORK_MS)
        seen.shoot("20-bulk-stopped")
        left = re.search(r"(\d+) were left alone", page.locator("main").inner_text())
        assert left is not None and int(left[1]) > 0
        rooms(page).get_by_role("link", name="Audit").click()
        expect(page.locator("main")).to_contain_text("bulk.stop")
        seen.check()


def wait_for_all_dead(instance: Instance, attempts: int) -> None:
    """Wait until every claim's work is dead after exactly so many attempts in all."""
    deadline = time.monotonic() + BULK_MS / 1000
    while (told := instance.manage("shell", "-v0", "-c", ATTEMPTS).split()) != [str(MANY), str(attempts)]:
        assert time.monotonic() < deadline, f"{told} instead of {MANY} dead after {attempts} attempts"
        assert int(told[1]) <= attempts, "something was tried more often than it was asked for"
        time.sleep(1)


def test_who_is_slower_is_told_how_the_work_stands_now(instance: Instance) -> None:
    key = instance.new_key("state:write", "triggers:write", "workload:create", "workload:read")
    with browser() as seen, instance.client(key) as api:
        page = seen.page
        sign_in(page, instance)
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


def test_everything_works_without_javascript(instance: Instance) -> None:
    dead = make_dead(instance, "without-javascript")
    with browser(javascript=False) as seen:
        page = seen.page
        sign_in(page, instance)
        page.get_by_label("Find by id").fill(dead)
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("heading", name="Why it is dead")).to_be_visible()
        rooms(page).get_by_role("link", name="Dead letters").click()
        page.get_by_label(f"Choose {dead}").check()
        page.locator("section.card", has=page.get_by_label(f"Choose {dead}")).get_by_role(
            "button", name="Discard the chosen"
        ).click()
        page.get_by_role("button", name="Discard 1 workload").click()
        deadline = time.monotonic() + WORK_MS / 1000
        while "1 done" not in page.locator("main").inner_text():
            assert time.monotonic() < deadline
            page.reload()
        page.get_by_role("link", name=dead).click()
        expect(page.locator(".head .badge").first).to_have_text("cancelled")
        seen.check()


def test_chosen_dead_letters_stay_chosen_while_the_page_lives_and_are_retried_together(instance: Instance) -> None:
    dead = [make_dead(instance, f"chosen-{number}") for number in range(2)]
    with browser() as seen:
        page = seen.page
        sign_in(page, instance)
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
