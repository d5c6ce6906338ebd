"""Many dead letters at once: retried once each, with progress to the end, and stopped under way."""

import re
from collections import Counter

import httpx
from playwright.sync_api import expect

from tests.acceptance.journey.person import MANY_MS, Person, every_work, wait_until

MANY = 1_200
CLAIMS = "claims"


def many_die(person: Person, api: httpx.Client) -> None:
    """A program writes 1,200 records of which the work can make nothing; the overview tells that they are dead."""
    claims = [{"collection": CLAIMS, "id": f"c-{number}", "value": {"n": number}} for number in range(MANY)]
    api.post("/transactions", json={"transactionId": "claims", "operations": claims}).raise_for_status()
    _wait_for_all_dead(api, attempts=1)
    person.room("Overview")
    alarm = person.page.locator(".figures .alarm")
    expect(alarm).to_have_text("1,000+ dead letters")
    alarm.click()


def retry_all_of_them(person: Person, api: httpx.Client) -> None:
    """Retry a whole group: a preview first, progress to the end, and each with exactly one attempt more."""
    page = person.page
    group = page.locator("section.card", has_text="KeyError: 'euros'")
    expect(group).to_contain_text("settle_claim")
    person.shoot("16-dead-letters-many")
    person.press("Retry all like these…", within=group)
    expect(person.card("What was asked")).to_contain_text("settle_claim")
    person.reads(f"{MANY} dead letters become ready, one after the other, each with a fresh budget of attempts.")
    page.get_by_label("Reason").fill("the form was corrected")
    person.shoot("17-bulk-draft")
    page.get_by_role("button", name=f"Retry {MANY} workloads").dblclick()
    expect(page.get_by_role("heading", name="Progress")).to_be_visible()
    with person.without_reload():
        person.reads(re.compile(rf"[1-9]\d* of {MANY} handled"), timeout=MANY_MS)
    person.shoot("18-bulk-progress")
    person.reads(f"{MANY} of {MANY} handled: {MANY} done, 0 refused, 0 left.", timeout=MANY_MS)
    person.shoot("19-bulk-done")
    _wait_for_all_dead(api, attempts=2)  # each has failed again, once: nothing is retried twice
    person.room("Bulk actions")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text(f"{MANY}")
    expect(page.locator("tbody tr")).to_contain_text("the form was corrected")


def stop_half_way(person: Person, api: httpx.Client) -> None:
    """Begin once more and stop it: what is done stays done, what is left has no attempt more."""
    page = person.page
    person.room("Dead letters")
    group = page.locator("section.card", has_text="KeyError: 'euros'")
    person.press("Retry all like these…", within=group)
    person.press(f"Retry {MANY} workloads")
    person.press("Stop")
    expect(page.get_by_role("heading", name="Stopped")).to_be_visible()
    person.shoot("20-bulk-stopped")
    told = re.search(r"(\d+) done, (\d+) refused, (\d+) left", person.main.inner_text())
    assert told is not None
    done, refused, left = map(int, told.groups())
    assert (done + left, refused) == (MANY, 0) and left > 0, told.group()
    person.reads(f"{left} were left alone.")
    _wait_until_all_rest(api)
    assert _attempts(api) == Counter({2: left, 3: done})


def _wait_for_all_dead(api: httpx.Client, *, attempts: int) -> None:
    """Wait until every claim's work is dead; each has had exactly so many attempts."""
    _wait_until_all_rest(api)
    assert _attempts(api) == Counter({attempts: MANY})


def _wait_until_all_rest(api: httpx.Client) -> None:
    def dead() -> bool:
        states: dict[str, int] = api.get("/workloads/counts").raise_for_status().json()["states"]
        return states["DEAD_LETTER"] == MANY and not states["READY"]

    wait_until(dead, f"{MANY} were to be dead")


def _attempts(api: httpx.Client) -> Counter[int]:
    """Count the dead work of the claims by its attempts."""
    dead = every_work(api, application_id=CLAIMS, state="DEAD_LETTER").values()
    return Counter(each["attempt_count"] for each in dead)
