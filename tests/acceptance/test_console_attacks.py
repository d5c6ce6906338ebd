"""What an attacker would try on the console, where a browser decides. Cost: about 30 s."""

import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from demo.instance import Instance
from tests.acceptance.browser import browser, sign_in

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

PASSWORDS = {"root": "root pass phrase 7Kq2", "olga": "olga pass phrase 7Kq2", "vera": "vera pass phrase 7Kq2"}
MAKE_PEOPLE = f"""
from apps.keys.principal import operator
from apps.operations.services.operators import Role, create_operator
for name, role in (("root", Role.ADMINISTRATOR), ("olga", Role.OPERATOR), ("vera", Role.VIEWER)):
    create_operator(name=name, password={PASSWORDS!r}[name], role=role, by=operator("tests"))
"""
EVIL = '"><script>window.evil=1</script><img src=x onerror="window.evil=1"><svg onload=window.evil=1>javascript:evil'


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("attacked") / "data"
    with Instance(data, LOG_FORMAT="json", ACCESS_LOG="true", FELTDB_APPS="demo") as running:
        running.manage("shell", "-c", MAKE_PEOPLE)
        running.start_server()
        running.start_worker()
        yield running


def content_of(page: Page) -> str:
    """The page's content once it has come: asked for while the browser is on its way, it is asked for again."""
    for _ in range(50):
        with suppress(PlaywrightError):
            page.wait_for_load_state()
            return page.content()
        page.wait_for_timeout(100)
    raise AssertionError(f"{page.url} does not come to rest")


def issue_a_key(page: Page, instance: Instance, name: str) -> str:
    """Issue a key by form and return its secret, read from the page."""
    page.goto(f"{instance.url}/admin/keys/apikey/add/")
    page.locator("#id_name").fill(name)
    page.get_by_label("state:read:").check()
    page.get_by_role("button", name=re.compile("Issue")).click()
    found = re.search(r"fdb_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", content_of(page))
    assert found is not None, content_of(page)
    return found.group()


def test_a_new_secret_is_on_one_page_once_and_in_no_address_history_or_referrer(instance: Instance) -> None:
    with browser() as seen:
        page = seen.page
        sent: list[str] = []
        page.on("request", lambda request: sent.append(f"{request.url} {request.headers.get('referer', '')}"))
        sign_in(page, instance.url, "root", PASSWORDS["root"])
        answers: list[str] = []
        page.on("response", lambda answer: answers.append(answer.headers.get("cache-control", "")))
        secret = issue_a_key(page, instance, "seen once")
        assert "no-store" in answers[-1] or any("no-store" in each for each in answers)
        where = page.url
        page.get_by_role("navigation", name="Console").get_by_role("link", name="Workloads").click()
        with suppress(PlaywrightError):  # the page is not kept: there is nothing to go back to
            page.go_back()
        page.wait_for_load_state()
        assert secret not in content_of(page)
        page.goto(where)
        assert secret not in content_of(page)
        page.get_by_role("navigation", name="Console").get_by_role("link", name=re.compile("keys", re.I)).first.click()
        assert secret not in content_of(page)
        assert not [each for each in sent if secret in each or secret[-20:] in each]
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert secret not in kept and secret[-20:] not in kept
        seen.troubles = [each for each in seen.troubles if "ERR_CACHE_MISS" not in each]  # of going back
        seen.check()


def test_a_session_gets_another_name_when_somebody_signs_in(instance: Instance) -> None:
    with browser() as seen:
        page = seen.page
        page.goto(f"{instance.url}/admin/")
        fixed = {"name": "sessionid", "value": "attackers0000000000000000000000", "url": instance.url}
        page.context.add_cookies([fixed])
        sign_in(page, instance.url, "root", PASSWORDS["root"])
        cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
        session = cookies["sessionid"]
        assert session["value"] != fixed["value"] and session["httpOnly"] and session["sameSite"] == "Lax"
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
        page.context.clear_cookies()
        page.context.add_cookies([{"name": "sessionid", "value": session["value"], "url": instance.url}])
        page.goto(f"{instance.url}/admin/")
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_no_other_site_frames_the_console_or_acts_for_who_is_signed_in(instance: Instance) -> None:
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, "root", PASSWORDS["root"])
        other = instance.url.replace("127.0.0.1", "localhost")  # another origin, with none of our cookies' rights
        foreign = f"""<iframe id=f src="{instance.url}/admin/"></iframe>
            <form id=a method=post action="{instance.url}/admin/keys/apikey/add/">
            <input name=name value=forged><input name=namespaces value=default><input name=scopes value="*"></form>"""
        page.route(f"{other}/evil", lambda route: route.fulfill(body=foreign, content_type="text/html"))
        page.goto(f"{other}/evil")
        page.wait_for_timeout(500)
        frame = page.frames[1]
        assert not urlsplit(frame.url).path.startswith("/admin") or "Overview" not in frame.content()
        with page.expect_navigation():
            page.evaluate("document.getElementById('a').submit()")
        assert "forged" not in content_of(page) or "403" in page.title()
        listed = instance.manage("keys", "list", "--json")
        assert "forged" not in listed


def test_markup_in_every_kind_of_name_and_value_is_shown_and_never_run(instance: Instance) -> None:
    key = instance.new_key("*")
    with instance.client(key) as api:
        api.put("/collections/hostile/one", json={EVIL: EVIL, "deep": {"x": [EVIL]}}).raise_for_status()
        work = {"definition_id": "compensate_delay", "idempotency_key": EVIL, "input": {"record": {"x": EVIL}}}
        workload = api.post("/workloads", json={**work, "session_id": EVIL}).raise_for_status().json()["workload_id"]
        trigger = {
            "trigger_id": "hostile",
            "source_collection": "hostile",
            "change_kind": "insert",
            "target_capability": EVIL[:120],
            "predicate": {"field": "a", "equals": EVIL},
        }
        api.post("/triggers", json=trigger).raise_for_status()
        api.post("/triggers/hostile/pause", json={"reason": EVIL}).raise_for_status()
    instance.manage("keys", "create", "--name", EVIL[:90], "--namespace", "default", "--scope", "state:read")
    pages = [
        "/admin/",
        "/admin/workloads/workload/",
        "/admin/dead-letters/",
        "/admin/triggers/trigger/",
        "/admin/keys/apikey/",
        "/admin/keys/auditevent/",
        "/admin/keys/issuedgrant/",
        "/admin/records/",
        "/admin/records/collection/?collection=hostile",
        "/admin/records/record/?collection=hostile&id=one",
        f"/admin/search/?q={workload}",
        f"/admin/search/?q={EVIL}",
    ]
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, "root", PASSWORDS["root"])
        for path in pages:
            with seen.expecting(404):
                page.goto(f"{instance.url}{path}")
            assert page.evaluate("window.evil") is None, path
        page.goto(f"{instance.url}/admin/triggers/trigger/")
        page.get_by_role("link", name="hostile").first.click()
        assert page.evaluate("window.evil") is None and "<script>window.evil" in page.inner_text("body")
        seen.check()


@pytest.mark.parametrize("who", ["vera", "olga"])
def test_nobody_does_by_hand_made_requests_what_their_role_does_not_let_them(instance: Instance, who: str) -> None:
    with browser() as seen:
        page = seen.page
        sign_in(page, instance.url, who, PASSWORDS[who])
        forbidden = [
            "/admin/keys/apikey/add/",
            "/admin/keys/apikey/tester/",
            "/admin/keys/operator/",
            "/admin/keys/operator/add/",
        ]
        if who == "vera":
            forbidden += ["/admin/triggers/trigger/add/"]
        with seen.expecting(403, 404, 405):
            for path in forbidden:
                answer = page.goto(f"{instance.url}{path}")
                assert answer is not None and answer.status in (403, 404), path
        # The right CSRF token, from a page of their own, changes nothing about what they may do.
        page.goto(f"{instance.url}/admin/")
        token = page.locator("input[name=csrfmiddlewaretoken]").first.input_value()
        for path in forbidden:
            answer = page.request.post(
                f"{instance.url}{path}",
                form={"csrfmiddlewaretoken": token, "name": "mine", "namespaces": "default", "scopes": "*"},
                headers={"Referer": f"{instance.url}/admin/", "Origin": instance.url},
            )
            assert answer.status in (403, 404, 405), path
    assert '"mine"' not in instance.manage("keys", "list", "--json")
