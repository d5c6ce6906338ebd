"""Tasks of an operator beside the journey: what was, what came of what, a trigger put elsewhere, backups, the audit.

In a real browser, over a real server and worker, with pictures for docs/operators.md. Cost: about half a minute.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import expect

from demo.instance import Instance
from tests.acceptance.browser import browser
from tests.acceptance.journey.person import MANY_MS, OPERATOR, PASSWORD, Person

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

CLAIM = {"passenger": "Ada", "flight": "late-1", "euros": 100}


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    apps = "demo,tests.acceptance.journey"
    with (
        TemporaryDirectory(prefix="feltdb-") as data,  # stands on the pictures
        Instance(Path(data), FELTDB_APPS=apps, DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running,
    ):
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        running.start_worker()
        yield running


def test_what_was_what_came_of_it_a_trigger_put_elsewhere_a_backup_and_who_did_that(instance: Instance) -> None:
    with browser() as seen:
        person = Person(seen, instance)
        person.page.goto(f"{instance.url}/admin/")
        person.page.get_by_label("Name").fill(OPERATOR)
        person.page.get_by_label("Password").fill(PASSWORD)
        person.press("Sign in")
        write_claims(instance)
        follow_what_came_of_a_claim(person)
        look_at_a_claim_as_it_was(person)
        put_the_trigger_elsewhere(person)
        back_up_and_verify(person)
        find_who_did_that(person)
        seen.check()


def write_claims(instance: Instance) -> None:
    """One claim is corrected twice; its settlement is work of a trigger, which writes the payout."""
    key = instance.new_key("state:read", "state:write", "triggers:write", "workload:create")
    with instance.client(key) as api:
        trigger = {"trigger_id": "claims", "source_collection": "claims", "change_kind": ["insert", "update"]}
        api.post("/triggers", json={**trigger, "target_capability": "settle_claim"}).raise_for_status()
        for euros in (100, 120, 150):
            api.put("/collections/claims/claim-1", json={**CLAIM, "euros": euros}).raise_for_status()


def follow_what_came_of_a_claim(person: Person) -> None:
    """From the payout back through work, trigger and change, and on from the claim to what it wrote."""
    person.room("Workloads")
    expect(person.main.locator("tbody").get_by_text("succeeded")).to_have_count(3, timeout=MANY_MS)
    person.room("Records")
    person.follow("payouts")
    person.follow("claim-1")
    person.card("Versions").get_by_role("link", name=re.compile(r"^\d+$")).first.click()
    came = person.card("Where it came from")
    expect(came).to_contain_text("settle_claim")
    expect(came).to_contain_text("this change")
    person.shoot("30-provenance")
    came.get_by_role("link", name=re.compile(r"^\d+$")).first.click()
    expect(person.card("What came of it")).to_contain_text("settle_claim")
    expect(person.main).to_contain_text("claims:claim-1")


def look_at_a_claim_as_it_was(person: Person) -> None:
    person.room("Records")
    person.follow("claims")
    person.follow("claim-1")
    person.reads('"euros": 150')
    person.page.get_by_label("As of revision").fill("1")
    person.press("Show it as it was")
    person.reads("As of revision 1.")
    expect(person.card("Value")).to_contain_text('"euros": 100')
    person.shoot("31-as-of")
    person.follow("Show the record as it is now")
    expect(person.card("Value")).to_contain_text('"euros": 150')


def put_the_trigger_elsewhere(person: Person) -> None:
    person.room("Triggers")
    person.follow("claims")
    person.follow("Rebase")
    expect(person.card("Where it stands")).to_contain_text("active")
    person.page.get_by_label("Go on from").select_option("now")
    person.page.get_by_label("Reason").fill("what came before is settled by hand")
    person.shoot("32-rebase")
    person.press("Rebase it")
    expect(person.main).to_contain_text("what came before is settled by hand")


def back_up_and_verify(person: Person) -> None:
    person.room("Backups")
    form = person.unfold("Make a backup…")
    form.get_by_label("Name").fill("before-the-move")
    person.press("Make the backup", within=form)
    person.follow("before-the-move")
    person.press("Verify it now")
    person.reads("Every byte was what was written", timeout=MANY_MS)
    person.shoot("33-backup")
    person.room("Backups")
    expect(person.card("Which there are")).to_contain_text("before-the-move")
    person.shoot("34-backups")


def find_who_did_that(person: Person) -> None:
    person.room("Audit")
    person.page.get_by_label("Who", exact=True).fill(f"human:{OPERATOR}")
    person.press("Search")
    for action in ("trigger.rebase", "backup.asked", "console.signed_in"):
        person.reads(action)
    person.shoot("35-audit")
