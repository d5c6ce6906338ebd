"""Who walks: a browser with somebody signed in, the instance it looks at, and what every step needs of both."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from demo.instance import Instance
from tests.acceptance.browser import PATIENCE_MS, Browser

OPERATOR, PASSWORD = "night-shift", "correct horse battery"
MANY_MS = 180_000


class Person:
    """Somebody at the console."""

    def __init__(self, seen: Browser, instance: Instance) -> None:
        self.seen = seen
        self.page: Page = seen.page
        self.instance = instance

    @property
    def main(self) -> Locator:
        """What the page is about, without the navigation."""
        return self.page.locator("main")

    def room(self, name: str) -> None:
        """Go to a page of the navigation."""
        self.page.get_by_role("navigation", name="Console").get_by_role("link", name=name, exact=True).click()

    def find(self, text: str) -> None:
        """Type something into the box that finds by id."""
        self.page.get_by_label("Find by id").fill(text)
        self.page.get_by_role("button", name="Find", exact=True).click()

    def follow(self, name: str, *, within: Locator | None = None) -> None:
        """Click the first link of exactly that name."""
        (within or self.main).get_by_role("link", name=name, exact=True).first.click()

    def press(self, name: str, *, within: Locator | None = None) -> None:
        """Press the button of that name."""
        (within or self.main).get_by_role("button", name=name, exact=True).click()

    def unfold(self, summary: str) -> Locator:
        """Open the part of the page with that summary and return it."""
        part = self.main.locator("details", has=self.page.locator("summary", has_text=summary))
        part.locator("summary").click()
        return part

    def card(self, heading: str) -> Locator:
        """Return the section under a heading."""
        named = self.page.get_by_role("heading", name=heading, exact=True)
        return self.main.locator("section", has=named)

    def reads(self, text: str | re.Pattern[str], *, timeout: int = PATIENCE_MS) -> None:
        """Wait until the page says something."""
        expect(self.main).to_contain_text(text, timeout=timeout)

    def told(self, text: str) -> None:
        """Read what the page says of what was just done."""
        expect(self.main.get_by_role("status").filter(has_text=text)).to_be_visible()

    def fact(self, name: str, value: str | re.Pattern[str], *, within: Locator | None = None) -> None:
        """Read one fact: a name and beside it what it is."""
        term = (within or self.main).locator("dt", has_text=re.compile(rf"^{re.escape(name)}$"))
        expect(term.locator("xpath=following-sibling::dd[1]")).to_have_text(value)

    def shoot(self, name: str) -> None:
        """Keep pictures of the page, and fail for what went wrong up to here."""
        self.seen.shoot(name)
        self.seen.check()

    @contextmanager
    def without_reload(self) -> Iterator[None]:
        """Whatever is seen meanwhile comes by itself: the page is not loaded anew."""
        loads: list[str] = []
        note: Callable[[Page], None] = lambda page: loads.append(page.url)  # noqa: E731 - taken off again below
        self.page.on("load", note)
        yield
        self.page.remove_listener("load", note)
        assert loads == [], "the page was loaded anew"


def every_work(api: httpx.Client, **asked: Any) -> dict[str, dict[str, Any]]:
    """Return all work that an API client sees, by its id: what the console did, told by another."""
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    while True:
        query = {**asked, "limit": 1000, **({"cursor": cursor} if cursor else {})}
        answer = api.get("/workloads", params=query).raise_for_status().json()
        found |= {each["workload_id"]: each for each in answer["workloads"]}
        cursor = answer["next_cursor"]
        if cursor is None:
            return found


def wait_until(holds: Callable[[], bool], told: str, *, timeout_ms: int = MANY_MS) -> None:
    """Ask again and again, within a bound that no busy machine needs."""
    deadline = time.monotonic() + timeout_ms / 1000
    while not holds():
        assert time.monotonic() < deadline, told
        time.sleep(0.5)
