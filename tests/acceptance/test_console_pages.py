"""Every page of the console in a real browser, found by its links and held against the URL map.

A page that is added is examined by itself, and one that nothing leads to fails: no serious or critical barrier (axe) in
either theme, no refused script or style, no console error, nothing wider than the screen, everything a pointer
reaches reached, seen and pressed by keyboard; for a viewer no form that acts. With hostile text in every row.
Cost: about a minute on an idle machine.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.urls import URLPattern, URLResolver, resolve
from playwright.sync_api import Page, expect

from demo.instance import Instance
from tests.acceptance.browser import SCHEMES, WIDTHS, Browser, browser, sign_in
from tests.acceptance.keyboard import Keyboard
from tests.operations.offered import Form
from tests.operations.test_meanwhile import actions

pytestmark = pytest.mark.acceptance

PASSWORD = "correct horse battery"
HOSTILE = "</script><img src=x onerror=window.evil=1><b>\u202eevil\u200f {{ 7 }} =1+1"
ROWS = f"""
import json
from tests.operations import scenes
from apps.keys.principal import operator
from apps.keys.services import issue_key
from apps.operations.services.operators import Role, create_operator
from apps.workloads.clock import now_ms
from tests.acceptance.console_rows import fill
for name, role in (("root", Role.ADMINISTRATOR), ("vera", Role.VIEWER)):
    create_operator(name=name, password={PASSWORD!r}, role=role, by=operator("tests"))
print(json.dumps([*fill("default", {HOSTILE!r}), *scenes.pages("default", "root")]))
"""
ACTIONS = frozenset({"logout", "jsi18n", "autocomplete", "view_on_site", "storage_acknowledge", "record_value"})
ACTS = (
    *("act", "again", "approve", "cancel", "reject", "retry", "revoke", "end", "delete", "start", "stop", "discard"),
    *("choose", "acknowledge", "run", "export", "verify"),
)
"""Addresses that act, or show nothing to a person: these, and whatever has one of these as its last word."""

UNLINKED = frozenset(
    {
        "login",
        "password_change_done",
        "app_list",
        "workloads_refusedword_change",
        "workloads_registeredworker_changelist",
    }
)
"""Pages that no link leads to: before the sign-in, after a form, and those that others stand for."""

NEVER_OFFERED = frozenset({"workloads_bulkorder_choose"})

FOR_MORE = frozenset(
    {
        "keys_apikey_add",
        "keys_apikey_rotate",
        "keys_apikey_tester",
        "keys_operator_add",
        "keys_operator_change",
        "keys_operator_changelist",
        "triggers_trigger_add",
        "triggers_trigger_edit",
        "triggers_trigger_rebase",
        "triggers_trigger_replay",
    }
)
"""Pages that are not for viewers."""

FIRST = ["/admin/", "/admin/search/?q=nothing", "/admin/password_change/"]

MAX_BEFORE_CONTENT = 220
"""Pixels of a phone's screen before the content begins: the frame, the box that finds, the folded pages."""

PER_PAGE = 2
"""Addresses looked at under one name: one of them may be the page without anything to show."""


class Filled(Instance):
    """An instance with a row of everything; `scenes` are pages of rows in which more can be done."""

    scenes: list[str]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with Filled(tmp_path_factory.mktemp("pages") / "data", FELTDB_APPS="demo") as running:
        running.scenes = json.loads(running.manage("shell", "-v0", "-c", ROWS).splitlines()[-1])
        running.start_server()
        yield running


def names(patterns: list[URLPattern | URLResolver]) -> set[str]:
    """Return the names of all addresses of the console."""
    found: set[str] = set()
    for pattern in patterns:
        found |= names(pattern.url_patterns) if isinstance(pattern, URLResolver) else {pattern.name or ""}
    return found - {""}


def acts(name: str) -> bool:
    return name in ACTIONS or name.split("_")[-1] in ACTS


def wanted() -> set[str]:
    """Return the names of the pages that must be reached; one nobody may add to has no page for it."""
    pages = {name for name in names(admin.site.get_urls()) - UNLINKED if not acts(name)}
    return {name for name in pages if not name.endswith(("_add", "_history"))}


def walk(seen: Browser, instance: Filled, first: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Open `first`, then what links lead to; yield the name and the address of each, and whether its name is new."""
    page = seen.page
    waiting, known, met = [*first], {*first}, Counter[str]()
    while waiting:
        path = waiting.pop(0)
        name = name_of(path)
        if acts(name) or (path not in first and met[name] >= PER_PAGE):
            continue
        page.goto(instance.url + path, wait_until="load")
        met[name] += 1
        yield name, path, met[name] == 1 or path in first
        for address in links(page, instance):
            if address not in known:
                known.add(address)
                waiting.append(address)


def links(page: Page, instance: Instance) -> list[str]:
    """Return the addresses of the console that the page links to."""
    found = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    return [
        where.path + (f"?{where.query}" if where.query else "")
        for where in map(urlsplit, found)
        if where.geturl().startswith(f"{instance.url}/admin/")
    ]


def name_of(path: str) -> str:
    return str(resolve(urlsplit(path).path).url_name)


@pytest.mark.timeout(900)
def test_every_page_is_reached_by_links_and_bars_nobody(instance: Filled) -> None:
    with browser() as seen:
        page, keyboard = seen.page, Keyboard(seen.page)
        sign_in(page, instance.url, "root", PASSWORD)
        met = set()
        for name, path, fresh in walk(seen, instance, [*FIRST, *instance.scenes]):
            met.add(name)
            if fresh:
                examine(seen, keyboard, path)
        assert wanted() - met == set(), "no link leads there"
        ask_before_keys_are_revoked(seen, keyboard, instance)
        pressed = {Form(address=urlsplit(address).path).name for address in keyboard.sent}
        assert actions() - NEVER_OFFERED - pressed == set(), "no keyboard presses this"
        seen.check()


def ask_before_keys_are_revoked(seen: Browser, keyboard: Keyboard, instance: Instance) -> None:
    """Choose a key and what to do by keyboard, and look at the page that asks once more."""
    page = seen.page
    page.goto(f"{instance.url}/admin/keys/apikey/")
    page.get_by_role("checkbox").nth(1).focus()
    page.keyboard.press("Space")
    page.locator("select[name=action]").focus()
    page.keyboard.type("Rev")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Revoke 1 key")).to_be_visible()
    examine(seen, keyboard, "asked before keys are revoked")


def examine(seen: Browser, keyboard: Keyboard, name: str) -> None:
    """Look at one page in both themes and both widths, and by keyboard."""
    page = seen.page
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        seen.examine(f"{name}, {scheme}")
    page.set_viewport_size({"width": WIDTHS[1], "height": 900})
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if overflow > 0:
        seen.troubles.append(f"{name} is {overflow} pixels too wide at {WIDTHS[1]}")
    seen.troubles += [f"{name}, narrow: {wrong}" for wrong in on_a_phone(page)]
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    seen.troubles += [f"{name}: {wrong}" for wrong in keyboard.walk()]
    if page.evaluate("window.evil !== undefined") or "\u202e" in page.locator("body").inner_text():
        seen.troubles.append(f"{name} obeys hostile text")


ON_A_PHONE = """() => {
  const links = [...document.querySelectorAll('nav.rooms a')];
  return {
    folds: document.querySelector('nav.rooms summary').checkVisibility(),
    shown: links.filter((each) => each.checkVisibility()).length,
    links: links.length,
    content: document.querySelector('main').getBoundingClientRect().top + scrollY,
    marked: links.filter((each) => each.ariaCurrent === 'page').map((each) => each.textContent),
    here: document.querySelector('nav.rooms .here')?.textContent ?? '',
    tooWide: document.documentElement.scrollWidth > innerWidth,
  };
}"""


def test_the_pages_unfolded_on_a_phone_bar_nobody_and_lead_on(instance: Filled) -> None:
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, "root", PASSWORD)
        page.set_viewport_size({"width": WIDTHS[1], "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.locator("nav.rooms summary").click()
            seen.examine(f"the pages unfolded, {scheme}")
            page.get_by_role("navigation", name="Console").get_by_role("link", name="Dead letters").click()
            expect(page.locator("nav.rooms .here")).to_have_text("Dead letters in default")
            expect(page.get_by_role("link", name="Approvals")).to_be_hidden()  # folded again
        seen.check()


def on_a_phone(page: Page) -> list[str]:
    """Return what is wrong with the navigation of a narrow page: it is folded, opens by keyboard, marks the page."""
    if not page.locator("nav.rooms").count():
        return []  # before the sign-in
    folded = page.evaluate(ON_A_PHONE)
    page.locator("nav.rooms summary").focus()
    page.keyboard.press("Enter")
    opened = page.evaluate(ON_A_PHONE)
    page.keyboard.press("Enter")
    right = {
        "the pages are not folded": folded["folds"] and folded["shown"] == 0,
        f"its content begins {folded['content']} pixels down": folded["content"] <= MAX_BEFORE_CONTENT,
        "Enter does not open the pages": opened["shown"] == opened["links"] > 0,
        "its open pages are wider than the screen": not opened["tooWide"],
        f"it marks {opened['marked']} and says {opened['here']}": len(opened["marked"]) <= 1
        and opened["here"].startswith("".join(opened["marked"])),
    }
    return [told for told, holds in right.items() if not holds]


def test_a_viewer_walks_every_page_and_is_offered_nothing_that_acts_or_is_refused(instance: Filled) -> None:
    """Whatever a page offers leads somewhere; what acts is not offered at all, not even as a form with no button."""
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, "vera", PASSWORD)
        met = set()
        for name, path, _ in walk(seen, instance, FIRST):
            met.add(name)
            expect(page.get_by_role("heading", level=1).first).to_be_visible()
            seen.troubles += [f"{path} offers a viewer {each}" for each in offers(page, instance)]
        seen.check()
        assert wanted() - FOR_MORE - met == set(), "no link leads a viewer there"
        assert FOR_MORE & met == set(), "a link leads a viewer there"
        for path in instance.scenes:  # rows in which more can be done, by who may
            with seen.expecting(403):
                page.goto(instance.url + path)
            if name_of(path) in FOR_MORE:
                expect(page).to_have_title("You may not do this · FeltDB")
            seen.troubles += [f"{path} offers a viewer {each}" for each in offers(page, instance)]
        seen.check()


def offers(page: Page, instance: Instance) -> list[str]:
    """Return whatever on the page acts: forms that are posted, buttons of none, links to what acts."""
    posted = page.eval_on_selector_all(
        "form[method=post], [formaction], button:not(form button, .copy)",
        "all => all.map(each => each.getAttribute('formaction') ?? each.getAttribute('action') ?? each.outerHTML)",
    )
    acting = [each for each in posted if not re.search(r"^/admin/(logout|password_change)/$", each)]
    if page.url.endswith("/admin/password_change/"):
        acting = [each for each in acting if "<form" not in each]
    looked_at = ("export", "record_value")  # files of what anybody may see
    linked = [each for each in links(page, instance) if acts(name_of(each)) and not name_of(each).endswith(looked_at)]
    return acting + linked
