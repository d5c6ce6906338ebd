"""The operator's journey in a real browser whose scripts are off: every task by forms and links, news by reloading.

Over a real server and a real worker. Cost: about a minute on an idle machine.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect

from demo.instance import Instance
from tests.acceptance.browser import browser, sign_in
from tests.acceptance.journey.person import MANY_MS, OPERATOR, PASSWORD, Person, every_work, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

MANY = 300
SCOPES = ("state:read", "state:write", "triggers:read", "triggers:write", "workload:create", "workload:read")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("plain") / "data"
    with Instance(data, FELTDB_APPS="demo", DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


@pytest.fixture
def person(instance: Instance) -> Iterator[Person]:
    """Somebody who has signed in with a browser that runs no script."""
    with browser(javascript=False) as seen:
        someone = Person(seen, instance)
        sign_in(someone.page, instance.url, OPERATOR, PASSWORD)
        yield someone
        seen.check()


def reload_until(person: Person, holds: Callable[[str], Any], told: str) -> str:
    """Load the page anew until what it says holds, and return that."""

    def look() -> bool:
        try:
            person.page.reload()
        except PlaywrightError as error:
            if "Not attached to an active page" not in error.message:
                raise
            return False  # the browser was on its way there already: asked again
        return bool(holds(person.main.inner_text()))

    wait_until(look, told, timeout_ms=MANY_MS)
    return person.main.inner_text()


def test_every_task_of_the_journey_is_done_without_a_script(person: Person, instance: Instance) -> None:
    with instance.client(issue_a_key(person)) as api:
        api.post("/collections/flights", json={"id": "early-0", "arr_delay": 61}).raise_for_status()
        define_a_trigger_with_a_mistake_first(person)
        dead = see_its_work_and_why_one_is_dead(person, api)
        retry(person, api)
        walk_back_to_where_it_came_from(person, dead)
        look_at_the_past(person)
        pause_and_resume(person)
        cancel_what_nobody_runs(person, api)
    compact(person)
    back_up_and_verify(person)
    search_the_audit(person)
    person.press("Sign out", within=person.page.locator("header"))
    expect(person.page.get_by_role("heading", name="You are signed out")).to_be_visible()


def issue_a_key(person: Person) -> str:
    person.room("API keys")
    person.page.get_by_role("link", name="Issue an API key").first.click()
    person.page.locator("#id_name").fill("the journey")
    for scope in SCOPES:
        person.page.get_by_label(f"{scope}:").check()
    person.main.get_by_role("button", name=re.compile("Issue")).click()
    found = re.search(r"fdb_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", person.main.inner_text())
    assert found is not None
    return found.group()


def define_a_trigger_with_a_mistake_first(person: Person) -> None:
    page = person.page
    person.room("Triggers")
    page.get_by_role("link", name="Define a trigger").first.click()
    page.locator("#id_trigger_id").fill("late-flights")
    page.get_by_label("Watch this collection").fill("flights")
    page.get_by_label("And this holds of it").fill('{"field": "arr_delay", "op": "gt" "value": 60}')
    page.get_by_label("Run this capability").fill("compensate_delay")
    page.get_by_label("insert: a record appears").check()
    with person.seen.expecting(422):
        person.press("Define the trigger")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was stored")
    expect(page.locator(".field-wrong")).to_contain_text("This is not JSON")
    page.get_by_label("And this holds of it").fill('{"field": "arr_delay", "op": "gt", "value": 60}')
    person.press("Dry run over recent changes")
    person.told("1 of 1 change")
    person.press("Define the trigger")
    person.told("late-flights is defined")


def see_its_work_and_why_one_is_dead(person: Person, api: httpx.Client) -> str:
    """Three records, of which two become work and one of that dies; return its id."""
    api.put("/collections/settings/compensation", json={"closed_for": "late-1"}).raise_for_status()
    for number, minutes in ((0, 30), (1, 95), (2, 180)):
        record = {"id": f"late-{number}", "carrier": "UA", "arr_delay": minutes}
        api.post("/collections/flights", json=record).raise_for_status()
    person.room("Workloads")
    reload_until(
        person, lambda text: "dead letter" in text and "succeeded" in text and "late-flights" in text, "two to end"
    )
    expect(person.main.locator("tbody tr")).to_have_count(2)
    person.room("Dead letters")
    person.reads("nothing is paid out for late-1")
    named = person.main.locator("tbody th a")
    dead = named.inner_text()
    named.click()
    expect(person.page.get_by_role("heading", name="Why it is dead")).to_be_visible()
    person.reads("CounterClosed")
    return dead


def retry(person: Person, api: httpx.Client) -> None:
    api.put("/collections/settings/compensation", json={"closed_for": None}).raise_for_status()
    form = person.unfold("Retry this work")
    form.get_by_label("Reason").fill("the counter is open again")
    person.press("Retry now", within=form)
    person.told("Armed again")
    text = reload_until(person, lambda text: "workload.completed" in text, "the work to end")
    assert '"euros": 39' in text and "the counter is open again" in text


def walk_back_to_where_it_came_from(person: Person, workload_id: str) -> None:
    person.follow("Where it came from and what it wrote")
    came = person.card("Where it came from")
    expect(came).to_contain_text("insert of flights:late-1")
    expect(came).to_contain_text("late-flights")
    came.get_by_role("link", name=re.compile(r"^\d+$")).click()  # the change
    expect(person.card("What came of it")).to_contain_text(workload_id)


def look_at_the_past(person: Person) -> None:
    page = person.page
    person.room("Records")
    person.follow("flights")
    expect(person.main.locator("tbody tr")).to_have_count(4)
    page.get_by_label("As of revision").fill("1")
    person.press("Show")
    person.reads("As of revision 1.")
    expect(person.main.locator("tbody tr")).to_have_count(1)
    person.follow("early-0")
    person.reads("As of revision 1.")
    person.reads('"arr_delay": 61')


def pause_and_resume(person: Person) -> None:
    person.room("Triggers")
    person.follow("late-flights")
    form = person.unfold("Pause…")
    person.page.locator("#reason-pause").fill("looking at it")
    person.press("Pause it", within=form)
    expect(person.page.get_by_role("heading", name="Why it stands still")).to_be_visible()
    person.press("Resume it", within=person.unfold("Resume…"))
    person.told("goes on from where it stood")


def cancel_what_nobody_runs(person: Person, api: httpx.Client) -> None:
    request = {"definition_id": "nobody-runs-this", "idempotency_key": "idle", "input": {"n": 2**63}}
    waiting = api.post("/workloads", json=request).raise_for_status().json()["workload_id"]
    person.find(waiting)
    person.reads("No worker can run this.")
    form = person.unfold("Cancel this work")
    form.get_by_label("Reason").fill("nobody wants it")
    person.press("Cancel the work", within=form)
    person.told("The work is cancelled")


def compact(person: Person) -> None:
    person.room("Compaction")
    form = person.unfold("Compact now…")
    person.press("Compact default", within=form)
    person.told("The compaction of default has begun")
    reload_until(person, lambda text: re.search(r"\d+ changes? let go", text), "the compaction to end")


def back_up_and_verify(person: Person) -> None:
    person.room("Backups")
    form = person.unfold("Make a backup…")
    form.get_by_label("Name").fill("by-hand")
    person.press("Make the backup", within=form)
    person.told("The backup by-hand has begun")
    reload_until(person, lambda text: "Which there are" in text, "the backup to be made")
    person.follow("by-hand")
    person.press("Verify it now")
    reload_until(person, lambda text: "Every byte was what was written" in text, "the backup to be verified")


def search_the_audit(person: Person) -> None:
    person.room("Audit")
    person.page.get_by_label("Action").fill("workload.cancel")
    person.press("Search")
    expect(person.main.locator("tbody tr")).to_have_count(1)
    person.reads("nobody wants it")
    person.reads(f"human:{OPERATOR}")


def test_300_dead_letters_are_retried_a_bulk_action_is_stopped_and_the_chosen_are_discarded(
    person: Person, instance: Instance
) -> None:
    with instance.client(instance.new_key(*SCOPES)) as api:
        trigger = {"trigger_id": "bad-claims", "source_collection": "claims", "change_kind": "insert"}
        api.post("/triggers", json={**trigger, "target_capability": "compensate_delay"}).raise_for_status()
        claims = [{"collection": "claims", "id": f"c-{number}", "value": {"n": number}} for number in range(MANY)]
        api.post("/transactions", json={"transactionId": "claims", "operations": claims}).raise_for_status()

        def attempts() -> list[int]:
            work = every_work(api).values()
            of_claims = [each for each in work if each["trigger"] == "state_change:bad-claims"]
            return [each["attempt_count"] for each in of_claims if each["state"] == "DEAD_LETTER"]

        wait_until(lambda: attempts() == [1] * MANY, "all to be dead after one attempt")
        choose_all_alike(person)
        person.reads(f"{MANY} dead letters become ready")
        person.page.get_by_label("Reason").fill("the form was corrected")
        person.press(f"Retry {MANY} workloads")
        person.told("Started.")
        reload_until(
            person, lambda text: f"{MANY} of {MANY} handled: {MANY} done, 0 refused, 0 left." in text, "all retried"
        )
        wait_until(lambda: attempts() == [2] * MANY, "all to be dead after two attempts")

        instance.kill_workers()  # so that it stands where it is stopped
        choose_all_alike(person)
        person.press(f"Retry {MANY} workloads")
        person.reads("It waits for a worker.")
        person.press("Stop")
        reload_until(person, lambda text: f"{MANY} were left alone" in text, "it to be stopped")
        instance.start_worker()
        assert attempts() == [2] * MANY

        person.room("Dead letters")
        chosen = person.main.locator("tbody th a").first.inner_text()
        person.page.get_by_label(f"Choose {chosen}").check()
        person.press("Discard the chosen…", within=person.main.locator("section.card").first)
        person.press("Discard 1 workload")
        reload_until(person, lambda text: "1 done" in text, "it to be discarded")
        person.follow(chosen)
        expect(person.page.locator(".head .badge").first).to_have_text("cancelled")


def choose_all_alike(person: Person) -> None:
    person.room("Dead letters")
    group = person.main.locator("section.card", has_text="KeyError")
    person.press("Retry all like these…", within=group)
    expect(person.page.get_by_role("heading", name="What will happen")).to_be_visible()
