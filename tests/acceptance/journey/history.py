"""What was: records as of an earlier revision, and the walk from a record to what came of it and back."""

import re

import httpx
from playwright.sync_api import expect

from tests.acceptance.journey.person import Person

PAID = "paid-1"
_AT = re.compile(r"sequence=(\d+)")


def browse_as_of(person: Person, api: httpx.Client) -> None:
    """Look at a record and its collection as they were before the last write, by its versions."""
    page = person.page
    for status, rooms in (("planned", 2), ("open", 3), ("closed", 0)):
        api.put("/collections/hotels/h-1", json={"status": status, "rooms": rooms}).raise_for_status()
    api.put("/collections/hotels/h-2", json={"status": "planned", "rooms": 9}).raise_for_status()
    person.room("Records")
    expect(page.get_by_role("row", name="hotels")).to_contain_text("2")
    person.follow("hotels")
    person.follow("h-1")
    person.fact("Version", "3")
    expect(person.card("Value")).to_contain_text('"status": "closed"')
    versions = person.card("Versions").locator("tbody tr")
    expect(versions).to_have_count(3)
    expect(versions.nth(1)).to_contain_text("2")
    revision = versions.nth(1).get_by_role("link").last.inner_text()

    page.get_by_label("As of revision").fill(revision)
    person.press("Show it as it was")
    person.reads(f"As of revision {revision}.")
    person.fact("Version", "2")
    expect(person.card("Value")).to_contain_text('"status": "open"')
    person.shoot("22-record-as-of")
    person.follow(revision, within=person.card("Versions"))
    person.follow("hotels as of this revision")
    person.reads(f"As of revision {revision}.")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)  # h-2 was not there then
    expect(rows).to_contain_text('"status":"open"')
    person.follow("Show the records as they are now")
    expect(rows).to_have_count(2)


def walk_both_ways(person: Person, api: httpx.Client) -> None:
    """From a record forwards to what its work wrote, and from there all the way back, each step a link."""
    page = person.page
    claim = [{"collection": "claims", "id": PAID, "value": {"euros": 250}}]
    api.post("/transactions", json={"transactionId": "pay-1", "operations": claim}).raise_for_status()
    person.find(f"claims:{PAID}")
    expect(page.get_by_role("heading", name=f"claims:{PAID}")).to_be_visible()
    change = person.card("Versions").locator("tbody tr").get_by_role("link").last
    sequence = change.inner_text()

    # Forwards: record, change, transaction, decision, work, what it wrote.
    change.click()
    person.fact("Transaction", "pay-1, 1 change")
    person.follow("pay-1")
    person.fact("Changes", "1")
    person.follow(sequence)
    effects = person.card("What came of it")
    expect(effects).to_contain_text("trigger claims made")
    person.shoot("23-change")
    person.follow("each check", within=effects)
    expect(page.get_by_role("heading", name="It fired")).to_be_visible()
    person.shoot("24-decision")
    page.locator("main a[href*='/workloads/workload/workload_']").first.click()
    expect(page.locator(".head .badge").first).to_have_text("succeeded")
    expect(person.card("Output")).to_contain_text('"euros": 250')
    person.follow("Where it came from and what it wrote")
    wrote = person.card("What it wrote").locator("tbody tr")
    expect(wrote).to_have_count(1)
    expect(wrote).to_contain_text(f"payouts:{PAID}")
    person.shoot("25-provenance")
    person.follow(f"payouts:{PAID}")
    expect(person.card("Value")).to_contain_text('"euros": 250')

    # And back: what was written, its change, the work, the decision, the change, the record.
    person.card("Versions").locator("tbody tr").get_by_role("link").last.click()
    came = person.card("Where it came from").locator("li")
    expect(came).to_have_count(4)
    expect(came.nth(0)).to_have_text(f"change {sequence}")
    expect(came.nth(1)).to_have_text("trigger claims")
    expect(came.nth(2)).to_contain_text("for settle_claim, succeeded")
    came.nth(2).get_by_role("link").click()
    came = person.card("Where it came from").locator("li")
    expect(came.nth(0)).to_contain_text(f"change {sequence}: insert of claims:{PAID}, by service:")
    expect(came.nth(1)).to_have_text("transaction pay-1")
    person.follow("each check", within=came.nth(2))
    expect(page.get_by_role("heading", name="It fired")).to_be_visible()
    page.locator(f"main dd a[href*='sequence={sequence}&']").click()
    person.follow(f"claims:{PAID}")
    expect(page.get_by_role("heading", name=f"claims:{PAID}")).to_be_visible()
    assert _AT.search(page.url) is None, "a record is named by its collection and id"
