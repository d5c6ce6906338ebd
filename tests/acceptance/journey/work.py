"""One workload at a time: watching it appear, reading why it died, retrying and cancelling it."""

import httpx
from playwright.sync_api import expect

from tests.acceptance.journey.person import Person

CLOSED = "nothing is paid out for late-1"


def watch_it_appear(person: Person, api: httpx.Client) -> None:
    """Look at the empty list while a program writes records: the work they call for comes by itself."""
    page = person.page
    person.room("Workloads")
    expect(page.get_by_role("heading", name="There is no work in default yet")).to_be_visible()
    rows = page.locator("tbody")
    with person.without_reload():
        api.put("/collections/settings/compensation", json={"closed_for": "late-1"}).raise_for_status()
        for number, minutes in ((0, 30), (1, 95), (2, 180)):
            record = {"id": f"late-{number}", "carrier": "UA", "arr_delay": minutes}
            api.post("/collections/flights", json=record).raise_for_status()
        expect(rows.locator("tr")).to_have_count(2)
        expect(rows.get_by_text("dead letter")).to_have_count(1)
        expect(rows.get_by_text("succeeded")).to_have_count(1)
    expect(rows.locator("tr").first).to_contain_text("compensate_delay")
    expect(rows.locator("tr").first).to_contain_text("state_change:late-flights")
    person.shoot("05-workloads")


def read_why_it_died_and_retry_it(person: Person, api: httpx.Client) -> None:
    """From the overview's red figure to the reason; put it right, retry, and see it succeed, the retry on record."""
    page = person.page
    person.room("Overview")
    alarm = page.locator(".figures .alarm")
    expect(alarm).to_have_text("1 dead letters")
    person.shoot("06-overview")
    alarm.click()
    expect(page.locator(".error-text")).to_contain_text(CLOSED)
    person.shoot("07-dead-letters")
    page.locator("tbody th a").click()
    why = person.card("Why it is dead")
    expect(why).to_contain_text(f"CounterClosed: {CLOSED}")
    expect(why).to_contain_text("It used 1 of 3 attempts")
    person.shoot("08-dead-letter")

    api.put("/collections/settings/compensation", json={"closed_for": None}).raise_for_status()
    retry = person.unfold("Retry this work…")
    retry.get_by_label("Reason").fill("the counter is open again")
    person.press("Retry now")
    person.told("Armed again")
    with person.without_reload():
        expect(person.card("Everything that happened")).to_contain_text("workload.completed")
        expect(page.locator(".head .badge").first).to_have_text("succeeded")
    expect(person.card("Output")).to_contain_text('"euros": 39')
    person.fact("Attempts", "2 in all; 1 of 3 since it was last armed")
    person.fact("Retried by people", "1 time")
    expect(person.card("Everything that happened")).to_contain_text("the counter is open again")
    person.shoot("09-retried")
    person.room("Dead letters")
    expect(page.get_by_role("heading", name="Nothing is dead")).to_be_visible()
    person.shoot("10-dead-letters-empty")


def cancel_work_that_waits(person: Person, api: httpx.Client) -> None:
    """Find work that nobody can run, read so on its page, and cancel it; who asked for it sees it cancelled."""
    page = person.page
    asked = {"definition_id": "not-installed-yet", "idempotency_key": "idle", "input": {"n": 2**63}}
    waiting = api.post("/workloads", json=asked).raise_for_status().json()["workload_id"]
    person.room("Overview")
    page.get_by_role("link", name="1 ready, now or later").click()
    person.follow(waiting)
    person.reads("No worker can run this.")
    expect(person.card("Input")).to_contain_text('"n": 9223372036854775808')
    cancel = person.unfold("Cancel this work…")
    expect(cancel).to_contain_text("Nobody holds it; it is cancelled at once and for good.")
    cancel.get_by_label("Reason").fill("asked for by mistake")
    person.press("Cancel the work")
    person.told("The work is cancelled.")
    expect(page.locator(".head .badge").first).to_have_text("cancelled")
    expect(person.card("Everything that happened")).to_contain_text("asked for by mistake")
    expect(page.get_by_text("Cancel this work")).to_have_count(0)
    person.shoot("14-cancelled")
    assert api.get(f"/workloads/{waiting}").json()["state"] == "CANCELLED"
