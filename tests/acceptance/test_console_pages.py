"""Every page of the console in a real browser, found by its links and held against the URL map.

A page that is added is examined by itself, and one that nothing leads to fails: no serious or critical barrier (axe) in
either theme, no refused script or style, no console error, nothing wider than the screen, everything a pointer
reaches reached, seen and pressed by keyboard; for a viewer no form that acts. With hostile text in every row.
Cost: about a minute on an idle machine.
"""

import json
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.urls import URLPattern, URLResolver, resolve
from playwright.sync_api import Page, expect

from demo.instance import Instance
from tests.acceptance.browser import SCHEMES, WIDTHS, Browser, browser
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
"""Addresses that act, or show nothing to a person: these, and whatever ends in one of these words."""

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


def sign_in(page: Page, instance: Instance, name: str) -> None:
    page.goto(f"{instance.url}/admin/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def names(patterns: list[URLPattern | URLResolver]) -> set[str]:
    """Return the names of all addresses of the console."""
    found: set[str] = set()
    for pattern in patterns:
        found |= names(pattern.url_patterns) if isinstance(pattern, URLResolver) else {pattern.name or ""}
    return found - {""}


def wanted() -> set[str]:
    """Return the names of the pages that must be reached; one nobody may add to has no page for it."""
    pages = {name for name in names(admin.site.get_urls()) - ACTIONS - UNLINKED if not name.endswith(ACTS)}
    return {name for name in pages if not name.endswith(("_add", "_history"))}


def test_every_page_is_reached_by_links_and_bars_nobody(instance: Filled) -> None:
    with browser() as seen:
        page, keyboard = seen.page, Keyboard(seen.page)
        sign_in(page, instance, "root")
        waiting = ["/admin/", "/admin/search/?q=nothing", "/admin/password_change/", *instance.scenes]
        met: dict[str, list[str]] = {}
        known = set(waiting)
        while waiting:
            path = waiting.pop(0)
            name = str(resolve(urlsplit(path).path).url_name)
            scene = path in instance.scenes
            if name in ACTIONS or name.endswith(ACTS) or (not scene and len(met.get(name, ())) >= PER_PAGE):
                continue
            page.goto(instance.url + path, wait_until="load")
            met.setdefault(name, []).append(path)
            if scene or len(met[name]) == 1:
                examine(seen, keyboard, path)
            for link in page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)"):
                where = urlsplit(link)
                address = where.path + (f"?{where.query}" if where.query else "")
                if link.startswith(f"{instance.url}/admin/") and address not in known:
                    known.add(address)
                    waiting.append(address)
        assert wanted() - set(met) == set(), "no link leads there"
        ask_before_keys_are_revoked(seen, keyboard, instance)
        pressed = {Form(address=urlsplit(address).path).name for address in keyboard.sent}
        assert actions() - NEVER_OFFERED - pressed == set(), "no keyboard presses this"
        seen.check()
        see_as_viewer(seen, instance, [paths[0] for name, paths in met.items() if not name.endswith("_add")])


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
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    seen.troubles += [f"{name}: {wrong}" for wrong in keyboard.walk()]
    if page.evaluate("window.evil !== undefined") or "\u202e" in page.locator("body").inner_text():
        seen.troubles.append(f"{name} obeys hostile text")


def see_as_viewer(seen: Browser, instance: Instance, paths: list[str]) -> None:
    """Open the same pages as somebody who may only look: nothing is offered that acts."""
    page = seen.page
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, instance, "vera")
    allowed = re.compile(r"/admin/(logout|password_change)/")
    for path in paths:
        with seen.expecting(403):
            answer = page.goto(instance.url + path)
        assert answer is not None
        if answer.status == 403:
            continue  # a page that is only for acting
        offered = page.eval_on_selector_all("form[method=post]", "forms => forms.map(form => form.action)")
        acting = [each for each in offered if not allowed.search(each) and urlsplit(each).path != urlsplit(path).path]
        if acting:
            seen.troubles.append(f"{path} offers a viewer {acting}")
    seen.check()
