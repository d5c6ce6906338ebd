"""Coming in, going out, and letting a program in."""

import re

from playwright.sync_api import expect

from tests.acceptance.browser import sign_in
from tests.acceptance.journey.person import OPERATOR, PASSWORD, Person

SCOPES = ("state:read", "state:write", "workload:create", "workload:read")
_SECRET = re.compile(r"fdb_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}")


def arrive(person: Person) -> None:
    """Meet the console for the first time: a wrong password, the right one, and what to do where nothing is yet."""
    page = person.page
    page.goto(f"{person.instance.url}/admin/")
    person.shoot("01-sign-in")
    page.get_by_label("Name").fill(OPERATOR)
    page.get_by_label("Password").fill("a wrong one")
    with person.seen.expecting(401, 403, 422):
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page, person.instance.url, OPERATOR, PASSWORD)
    expect(page.get_by_role("heading", name="Start here")).to_be_visible()
    person.shoot("02-overview-empty")


def issue_a_key(person: Person) -> str:
    """Issue a key by form and return its secret, which is shown this once and never again."""
    page = person.page
    person.room("API keys")
    page.get_by_role("link", name="Issue an API key").first.click()
    page.locator("#id_name").fill("the journey")
    for scope in SCOPES:
        page.get_by_label(f"{scope}:").check()
    person.press("Issue the key")
    person.reads("is shown this once and kept nowhere")
    secret = page.locator("#secret").inner_text()
    assert _SECRET.fullmatch(secret), "what is shown is the whole secret"
    person.follow("Show the key")
    for scope in SCOPES:
        expect(page.get_by_role("row", name=scope)).to_contain_text("never")
    assert secret not in page.content()
    person.room("API keys")
    expect(page.get_by_role("row", name="the journey")).to_have_count(1)
    assert secret not in page.content()
    return secret


def sign_out(person: Person) -> None:
    """Leave: going back shows nothing any more."""
    page = person.page
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Password")).to_be_visible()
    person.seen.check()
