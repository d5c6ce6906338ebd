"""A page of the console by keyboard alone: Tab through all of it, open what opens, press every button that acts.

What is sent is caught on its way, so that nothing is done and the page stays: whether an action works is other tests';
here it is whether it can be reached, seen and pressed.
"""

from typing import Any

from playwright.sync_api import Page, Route

_REACHABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary"
MAX_TABS = 600

_TO_THE_TOP = """() => {
  document.body.tabIndex = -1;  // where Tab goes on from: blurring alone leaves that where it was
  document.body.focus();
  document.body.removeAttribute('tabindex');
  document.body.blur();
  scrollTo(0, 0);
}"""

_PREPARE = f"""() => {{
  for (const each of document.querySelectorAll('details')) each.open = false;
  window.reachable = () => [...document.querySelectorAll('{_REACHABLE}')].filter(
    (each) => !each.disabled && each.checkVisibility() && each.getClientRects().length);
  window.reached = new Set();
  window.before = null;
}}"""

_LOOK = """() => {
  const at = document.activeElement;
  if (!at || at === document.body || at.tagName === 'HTML') return null;
  const again = window.reached.has(at);
  if (again && at === window.reached.values().next().value) return null;  // round to the beginning
  window.reached.add(at);
  const style = getComputedStyle(at);
  const box = at.getBoundingClientRect();
  const ringed = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  const centre = [box.left + box.width / 2, box.top + Math.min(box.height, 20) / 2];
  const before = window.before?.isConnected ? window.before : null;
  const inOrder = !before || !!(before.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING)
    || (at.type === 'radio' && before.name === at.name);
  window.before = at;
  const form = at.closest('form');
  return {
    again, ringed, inOrder,
    named: at.outerHTML.slice(0, 160),
    inView: centre[0] >= 0 && centre[0] <= innerWidth && centre[1] >= 0 && centre[1] <= innerHeight,
    closed: at.tagName === 'SUMMARY' && !at.parentElement.open,
    sends: at.matches('button, input[type=submit]') && at.type === 'submit' && form?.method === 'post'
      ? new URL(at.getAttribute('formaction') ?? form.getAttribute('action') ?? '', location.href.split('#')[0]).href
      : '',
    asks: at.matches('input[required], textarea[required]') && !at.value,
  };
}"""

_LEFT_OUT = """() => window.reachable().filter((each) => !window.reached.has(each)
    && !(each.type === 'radio' && [...window.reached].some((one) => one.name === each.name && one.form === each.form)))
  .map((each) => each.outerHTML.slice(0, 160))"""


class Keyboard:
    """Walks pages; `sent` are the addresses to which forms were sent by it."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.sent: set[str] = set()

    def walk(self) -> list[str]:
        """Tab through the page at hand, pressing all that opens or sends, and return what is wrong."""
        self._page.route("**/*", self._catch)
        try:
            return self._walk()
        finally:
            self._page.unroute("**/*", self._catch)

    def _walk(self) -> list[str]:
        page, wrong = self._page, []
        page.evaluate(_TO_THE_TOP)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        if not page.evaluate("document.activeElement.id === 'content'"):
            wrong.append("the first Tab and Enter do not lead past the navigation")
        page.evaluate(_TO_THE_TOP)
        page.evaluate(_PREPARE)
        for _ in range(MAX_TABS):
            page.keyboard.press("Tab")
            at: dict[str, Any] | None = page.evaluate(_LOOK)
            if at is None:  # past the last
                break
            if at["again"]:
                return [*wrong, f"the focus is caught: it comes back to {at['named']} before the end"]
            wrong += [f"{told}: {at['named']}" for told, right in _rules(at).items() if not right]
            wrong += self._press(at)
        else:
            wrong.append(f"{MAX_TABS} presses of Tab do not lead through")
        return wrong + [f"no Tab reaches {each}" for each in page.evaluate(_LEFT_OUT)]

    def _press(self, at: dict[str, Any]) -> list[str]:
        page = self._page
        if at["asks"]:
            page.keyboard.type("a reason, typed")
        if at["closed"]:
            page.keyboard.press("Enter")
            if not page.evaluate("document.activeElement.parentElement.open"):
                return [f"Enter does not open {at['named']}"]
        if at["sends"] and at["sends"] not in self.sent:
            before = len(self.sent)
            page.keyboard.press("Enter")
            if not self._came(before):
                return [f"Enter does not send {at['named']}"]
        return []

    def _came(self, before: int) -> bool:
        for _ in range(50):
            if len(self.sent) > before:
                return True
            self._page.wait_for_timeout(20)
        return False

    def _catch(self, route: Route) -> None:
        if route.request.method == "POST":
            self.sent.add(route.request.url)
            route.fulfill(status=204)
        else:
            route.continue_()


def _rules(at: dict[str, Any]) -> dict[str, bool]:
    return {
        "the focus is not to be seen": at["ringed"],
        "the focus is out of view": at["inView"],
        "the focus goes back": at["inOrder"],
    }
