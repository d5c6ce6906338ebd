"""A page whose server goes away says that it is not live any more, and goes on by itself when the server is back.

Cost: about half a minute, most of it the server's start.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from demo.instance import Instance
from tests.acceptance.browser import Browser, browser, sign_in
from tests.acceptance.journey.person import OPERATOR, PASSWORD

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("lost") / "data"
    with Instance(data, FELTDB_APPS="demo", DJANGO_SUPERUSER_PASSWORD=PASSWORD) as running:
        running.manage("createsuperuser", "--noinput", "--username", OPERATOR, "--email", "")
        running.start_server()
        yield running


def forgive(seen: Browser, lost: str) -> None:
    """Fail for whatever went wrong beside what a lost server must bring."""
    assert [each for each in seen.troubles if re.search(lost, each)], "the browser has not noticed"
    seen.troubles = [each for each in seen.troubles if not re.search(lost, each)]
    seen.check()


def test_a_live_page_says_that_the_server_is_lost_and_goes_on_when_it_is_back(instance: Instance) -> None:
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
        page.get_by_role("navigation", name="Console").get_by_role("link", name="Workloads").click()
        lost = page.get_by_role("alert").filter(has_text="no longer live")
        expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
        expect(lost).to_have_count(0)
        seen.check()

        instance.kill_server()
        expect(lost).to_be_visible()
        expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
        with page.expect_event("requestfailed"):
            pass  # asked once more, and still nobody there
        expect(lost).to_have_count(1)
        instance.start_server()
        expect(lost).to_have_count(0)

        with instance.client(instance.new_key("workload:create")) as api:
            request = {"definition_id": "nobody-runs-this", "idempotency_key": "after"}
            work = api.post("/workloads", json=request).raise_for_status().json()["workload_id"]
        expect(page.locator("main")).to_contain_text(work)  # by itself
        forgive(seen, "ERR_CONNECTION_REFUSED$|^error: htmx:(sendError|timeout|afterRequest),")


def test_a_live_page_keeps_what_it_shows_when_the_server_answers_that_it_failed(instance: Instance) -> None:
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, OPERATOR, PASSWORD)
        page.get_by_role("navigation", name="Console").get_by_role("link", name="Workers").click()
        expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
        lost = page.get_by_role("alert").filter(has_text="no longer live")
        with seen.expecting(502):
            page.route("**/admin/workers/**", lambda route: route.fulfill(status=502, body="the proxy speaks"))
            expect(lost).to_be_visible()
        expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
        page.unroute("**/admin/workers/**")
        expect(lost).to_have_count(0)
        forgive(seen, "^error: Response Status Error Code 502 from /admin/workers/")
