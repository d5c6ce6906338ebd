"""A real browser for acceptance tests: Debian's Chromium, driven by Playwright, that fails on what users would not see.

Console errors, refused scripts or styles (the content security policy), page errors and failed loads are collected;
`check` raises for any that the test did not announce.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Request, Response, expect, sync_playwright

from demo.instance import ROOT

SCREENSHOTS = ROOT / "tests" / "screenshots"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
"""How long a page is given to show something: many of its live beats, on a machine that does much else."""

WIDTHS = (1280, 390)
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")


class Browser:
    """One page of a browser and everything that went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.troubles: list[str] = []
        self.expected_statuses: set[int] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        refused_load = "Failed to load resource" in message.text  # told with its status by _response
        if message.type in ("error", "warning") and not refused_load:
            self.troubles.append(f"{message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left before its icon came
            self.troubles.append(f"failed: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected_statuses:
            self.troubles.append(f"status {response.status}: {response.url}")

    @contextmanager
    def expecting(self, *statuses: int) -> Iterator[None]:
        """Let pages answer with these statuses for a while."""
        self.expected_statuses = set(statuses)
        yield
        self.expected_statuses = set()

    def shoot(self, name: str) -> None:
        """Keep two pictures of the whole page, wide and light, narrow and dark; nothing may overflow or bar the way."""
        SCREENSHOTS.mkdir(exist_ok=True)
        for width, scheme in zip(WIDTHS, SCHEMES, strict=True):
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme=scheme)
            picture = SCREENSHOTS / f"{name}-{width}-{scheme}.png"
            # Hiding the caret would style the fields for a moment, and a live part replaced in that very moment takes
            # the style over by script, which the page's policy rightly refuses.
            self.page.screenshot(path=picture, full_page=True, caret="initial")
            self.examine(f"{name}, {scheme}")
            overflow = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if overflow > 0:
                self.troubles.append(f"{name} is {overflow} pixels too wide at {width}")
        self.page.emulate_media(color_scheme=SCHEMES[0])
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})

    def examine(self, name: str) -> None:
        """Let axe look for barriers; serious and critical ones are troubles."""
        for found in Axe().run(self.page).response["violations"]:
            if found["impact"] in ("serious", "critical"):
                places = "; ".join(f"{node['target']} {node['failureSummary']}" for node in found["nodes"][:3])
                self.troubles.append(f"{name}: {found['id']}: {found['help']}: {places}")

    def check(self) -> None:
        """Raise for anything that went wrong so far."""
        assert self.troubles == [], "\n".join(self.troubles)


@contextmanager
def browser(*, javascript: bool = True) -> Iterator[Browser]:
    """Start a browser of its own and end it."""
    executable = shutil.which("chromium")
    assert executable, "chromium is missing; run scripts/install-chromium"
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        try:
            context = chromium.new_context(java_script_enabled=javascript, reduced_motion="reduce")
            context.set_default_timeout(PATIENCE_MS)
            yield Browser(context.new_page())
        finally:
            chromium.close()


def sign_in(page: Page, url: str, name: str, password: str) -> None:
    """Open the console of the instance at `url` and sign in: it leads to the overview."""
    page.goto(f"{url}/admin/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
