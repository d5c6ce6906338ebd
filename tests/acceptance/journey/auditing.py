"""The audit: everything that was done on the way is found, once each, with who and why."""

from playwright.sync_api import expect

from tests.acceptance.journey.many import MANY
from tests.acceptance.journey.person import OPERATOR, Person

DONE = (
    ("trigger.pause", "looking at it"),
    ("trigger.rebase", "the lost prices are old"),
    ("trigger.replay", "compensated wrongly"),
    ("workload.cancel", "asked for by mistake"),
    ("storage.compaction_asked", "the disk"),
    ("backup.asked", "before the holidays"),
)


def search(person: Person) -> None:
    """Search by action, by person and by what it was done to, and open one event."""
    page = person.page
    rows = page.locator("tbody tr")
    person.room("Audit")
    for action, reason in DONE:
        page.get_by_label("Action").fill(action)
        person.press("Search")
        expect(rows.filter(has_text=reason)).to_have_count(1)
        expect(rows.filter(has_text=reason)).to_contain_text(f"human:{OPERATOR}")
    person.follow("Show all")
    page.get_by_label("Action").fill("workload.retry")
    page.get_by_label("Who").fill(f"human:{OPERATOR}")
    person.press("Search")
    expect(rows.first).to_contain_text("workload.retry")
    person.shoot("33-audit")
    with page.expect_download() as fetched:
        person.follow("Fetch all that match as CSV")
    lines = fetched.value.path().read_text(encoding="utf-8").splitlines()
    corrected = [line for line in lines if "the form was corrected" in line]
    assert len(corrected) == MANY, "each row of the bulk action is an event of its own"
    rows.first.locator("th a").click()
    person.reads("workload.retry")
    person.shoot("34-audit-event")
