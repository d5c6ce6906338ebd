"""Triggers: defining one by form, reading why it did not fire, holding it and letting it go on."""

import re

import httpx
from playwright.sync_api import expect

from tests.acceptance.journey.person import Person

LATE = '{"field": "arr_delay", "op": "gt", "value": 60}'


def define_with_a_mistake_first(person: Person) -> None:
    """Fill in the form with two mistakes, read what is wrong beside the fields, put it right, try it, store it."""
    page = person.page
    person.room("Triggers")
    person.shoot("03-triggers-empty")
    page.get_by_role("link", name="Define a trigger").first.click()
    page.locator("#id_trigger_id").fill("late-flights")
    page.get_by_label("Watch this collection").fill("flights")
    page.get_by_label("And this holds of it").fill(LATE.replace(', "value"', ' "value"'))
    page.get_by_label("Run this capability").fill("compensate_delay")
    with person.seen.expecting(422):
        person.press("Define the trigger")
        expect(page.get_by_role("alert")).to_contain_text("Nothing was stored")
    wrong = page.locator(".field-wrong")
    expect(wrong).to_have_count(2)
    expect(wrong.filter(has_text="And this holds of it")).to_contain_text("This is not JSON")
    expect(wrong.filter(has_text="When a record is")).to_contain_text("Choose at least one kind of change")
    person.shoot("04-trigger-form-wrong")
    page.get_by_label("insert: a record appears").check()
    page.get_by_label("And this holds of it").fill(LATE)
    person.press("Dry run over recent changes")
    expect(person.card("Dry run: nothing was stored")).to_contain_text("1 of 1 change of the collection would have")
    person.shoot("04-trigger-form-tried")
    person.press("Define the trigger")
    person.told("late-flights is defined.")
    expect(person.card("Its newest work")).to_contain_text("None yet.")  # what was there before makes no work


def define(
    person: Person, trigger_id: str, collection: str, capability: str, *, largest_lag: int | None = None
) -> None:
    """Define a trigger on every insert, within an application of its own name."""
    page = person.page
    person.room("Triggers")
    page.get_by_role("link", name="Define a trigger").first.click()
    page.locator("#id_trigger_id").fill(trigger_id)
    page.get_by_label("Watch this collection").fill(collection)
    page.get_by_label("insert: a record appears").check()
    page.get_by_label("Run this capability").fill(capability)
    seldom = person.unfold("Seldom needed")
    seldom.get_by_label("Application").fill(trigger_id)
    if largest_lag is not None:
        seldom.get_by_label("Largest lag").fill(str(largest_lag))
    person.press("Define the trigger")
    person.told(f"{trigger_id} is defined.")


def say_why_it_did_not_fire(person: Person) -> None:
    """From a trigger's page: choose a change it let pass, and read the clause that did not hold."""
    page = person.page
    open_one(person, "late-flights")
    person.follow("Why did it not fire?")
    page.get_by_role("link", name="flights:late-0").first.click()
    expect(page.get_by_role("heading", name="It made no work")).to_be_visible()
    person.reads("the predicate does not hold")
    expect(page.get_by_role("row", name=re.compile('"value":60'))).to_contain_text("30")
    person.shoot("12-trigger-why")


def pause_and_resume(person: Person, api: httpx.Client) -> None:
    """Hold a trigger, see a change wait for it, let it go on, and see the work of that change appear."""
    page = person.page
    person.room("Triggers")
    row = page.get_by_role("row", name="late-flights")
    expect(row).to_contain_text("up to date")
    person.shoot("11-triggers")
    person.follow("late-flights")
    made = person.card("Its newest work").locator("tbody tr")
    before = made.count()
    held = person.unfold("Pause…")
    held.get_by_label("Reason").fill("looking at it")
    person.press("Pause it")
    expect(person.card("Why it stands still")).to_contain_text("looking at it PAUSED_BY_OPERATOR")
    flight = {"id": "late-3", "carrier": "UA", "arr_delay": 75}
    api.post("/collections/flights", json=flight).raise_for_status()
    person.fact("Lag", "1 behind")
    expect(made).to_have_count(before)
    person.shoot("12-trigger")
    person.unfold("Resume…").get_by_role("button", name="Resume it").click()
    person.told("late-flights goes on from where it stood.")
    expect(made).to_have_count(before + 1)
    expect(made.first).to_contain_text("succeeded")
    person.fact("Lag", "up to date")
    revisions = person.card("Revisions").locator("tbody tr")
    expect(revisions).to_have_count(3)
    expect(revisions.nth(1)).to_contain_text("looking at it")


def open_one(person: Person, trigger_id: str) -> None:
    """Go to a trigger's page by the list."""
    person.room("Triggers")
    person.follow(trigger_id)
    expect(person.page.get_by_role("heading", name=trigger_id, exact=True)).to_be_visible()
