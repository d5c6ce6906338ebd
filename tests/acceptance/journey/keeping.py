"""History that goes: compaction, a trigger that had yet to see it, old changes once more, and a backup of the rest."""

import re

import httpx
from playwright.sync_api import expect

from tests.acceptance.journey import triggers
from tests.acceptance.journey.person import MANY_MS, Person

HISTORY_MIB = "1"
"""FELTDB_HISTORY_MIB of the instance: history beyond the newest segment goes."""

PRICES = 3
_MIB = 1 << 20
_SEGMENT_MIB = 64


def replay_old_changes(person: Person) -> None:
    """Order old changes to be evaluated once more: those that match make new work, which the trigger's page lists."""
    page = person.page
    triggers.open_one(person, "late-flights")
    work = person.card("Its newest work").locator("tbody tr")
    before = work.count()
    person.follow("Replay old changes")
    person.follow("dry run")
    person.page.get_by_label("Over").select_option("beginning")
    person.press("Run it dry")
    found = person.card("What it would have fired for").inner_text()
    matching = re.search(r"(\d+) of (\d+) changes", found)
    assert matching is not None, found
    page.go_back()
    page.go_back()
    page.get_by_label("Changes after").fill("beginning")
    page.get_by_label("Reason").fill("compensated wrongly")
    person.press("Order the replay")
    person.told("Replay 1 is ordered; its progress is below.")
    row = person.card("Replays").locator("tbody tr")
    expect(row).to_contain_text("done")
    expect(row).to_contain_text("compensated wrongly")
    expect(row.locator("td[data-label='Work made']")).to_have_text(matching[1])
    expect(work).to_have_count(before + int(matching[1]))
    person.shoot("26-replay")


def fall_behind(person: Person, api: httpx.Client) -> None:
    """Pause a trigger that history does not wait for, and let a program write on."""
    triggers.define(person, "prices", "prices", "identity", largest_lag=1)
    person.unfold("Pause…").get_by_label("Reason").fill("the price list is wrong")
    person.press("Pause it")
    expect(person.card("Why it stands still")).to_contain_text("the price list is wrong")
    for number in range(PRICES):
        api.put(f"/collections/prices/p-{number}", json={"euros": number}).raise_for_status()
    pixels = "x" * (_MIB - 100)
    for number in range(_SEGMENT_MIB + 4):
        api.put(f"/collections/scans/s-{number % 4}", json={"pixels": pixels}).raise_for_status()


def compact(person: Person) -> int:
    """See what compaction would let go, run it, and read what it did; returns the first change that is kept."""
    person.room("Compaction")
    person.fact("History is kept", f"whatever its age, and no more than {HISTORY_MIB} MiB of it")
    goes = re.compile(r"changes 1 to (\d+): (\d+) of them")
    person.fact("Would let go", goes)  # once evaluators have said how far they are
    told = goes.search(person.card("Now").inner_text())
    assert told is not None and told[1] == told[2]
    floor = int(told[1])
    person.shoot("27-compaction")
    run = person.unfold("Compact now…")
    expect(run).to_contain_text("What is let go cannot be brought back but from a backup.")
    run.get_by_label("Reason").fill("the disk")
    person.press("Compact default")
    person.told("The compaction of default has begun")
    row = person.card("Last runs, of every namespace").locator("tbody tr")
    expect(row).to_contain_text(f"{floor} changes let go, 64.0 MiB given back", timeout=MANY_MS)
    person.fact("Would let go", "nothing")
    person.shoot("28-compacted")
    person.room("Changes")
    person.reads(f"Kept from {floor + 1} to")
    return floor + 1


def rebase_what_was_passed(person: Person, api: httpx.Client, first_kept: int) -> None:
    """Resume the trigger: it says that its history is gone, and how to go on; rebased, it makes work again."""
    page = person.page
    triggers.open_one(person, "prices")
    person.unfold("Resume…")
    person.press("Resume it")
    held = person.card("Why it stands still")
    expect(held).to_contain_text("FEED_COMPACTED")
    expect(page.locator(".head .badge").first).to_have_text("blocked")
    person.shoot("29-blocked")
    person.room("Overview")
    alert = page.get_by_role("alert").filter(has_text="FEED_COMPACTED")
    expect(alert).to_contain_text("The trigger prices stands still")
    person.follow("prices", within=alert)
    person.follow("rebase it", within=held)
    expect(page.locator(".notice-warning")).to_contain_text("History it had not seen is gone:")
    expect(page.locator(".notice-warning")).to_contain_text("operations after its place are not kept any more")
    person.fact("History begins after", re.compile(rf".*[-:]{first_kept - 1}$"))
    person.shoot("30-rebase")
    page.get_by_label("Go on from").select_option(label="the oldest change that is kept")
    page.get_by_label("Reason").fill("the lost prices are old")
    person.press("Rebase it")
    person.told("prices goes on from where you put it.")
    person.fact("Lag", "up to date")
    expect(page.locator(".head .badge").first).to_have_text("active")
    expect(person.card("Its newest work")).to_contain_text("None yet.")  # the lost ones make none
    api.put("/collections/prices/p-new", json={"euros": 7}).raise_for_status()
    work = person.card("Its newest work").locator("tbody tr")
    expect(work).to_have_count(1)
    expect(work).to_contain_text("succeeded")


def back_up(person: Person) -> None:
    """Make a backup, see it listed with what it holds, and have it verified."""
    page = person.page
    person.room("Backups")
    expect(page.get_by_role("heading", name="There is no backup yet")).to_be_visible()
    make = person.unfold("Make a backup…")
    make.get_by_label("Name").fill("after-the-journey")
    make.get_by_label("Reason").fill("before the holidays")
    person.press("Make the backup")
    person.told("The backup after-the-journey has begun")
    row = person.card("Which there are").locator("tbody tr")
    expect(row).to_have_count(1, timeout=MANY_MS)
    expect(row).to_contain_text("1 namespace")
    expect(row).to_contain_text("not yet")
    person.shoot("31-backups")
    person.follow("after-the-journey")
    person.press("Verify it now")
    expect(person.card("Is it whole?")).to_contain_text("Every byte was what was written", timeout=MANY_MS)
    expect(person.card("Restore it")).to_contain_text("manage.py backup restore after-the-journey --replace")
    person.shoot("32-backup")
