"""Secrets planted in every place that takes one, then looked for in every place that could have kept or told one.

Cost: about 20 s.
"""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from demo.instance import Instance
from tests.acceptance.browser import browser, sign_in
from tests.acceptance.test_console_attacks import MAKE_PEOPLE, PASSWORDS, issue_a_key

pytestmark = pytest.mark.acceptance

SHORTEST = 16
"""Characters of a part of a secret that is looked for: fewer occur by chance."""
PAGES = ("", "keys/apikey/", "keys/auditevent/", "keys/issuedgrant/", "workloads/workload/", "storage/")


@dataclass
class Planting:
    """What was planted, by name, and everything that anybody was told since."""

    instance: Instance
    planted: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, bearer: str | None, *, shows: str = "", **members: Any) -> httpx.Response:
        """Send a request and keep the answer, but for one that shows a new secret, which is planted as `shows`."""
        headers = {"FeltDB-Namespace": "default"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        answer = httpx.request(method, f"{self.instance.url}{path}", headers=headers, timeout=30, **members)
        if shows:
            body = answer.raise_for_status().json()
            self.planted[shows] = body.get("secret") or body["access_token"]
        else:
            self.told[f"answer {len(self.told)} to {method} {path}"] = f"{answer.headers} {answer.text}"
        return answer

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """Give every secret, whole and without its public part."""
        for name, text in self.planted.items():
            for part in {text, text.rpartition("_")[2]}:
                if len(part) >= SHORTEST:
                    yield name, part.encode()


@pytest.fixture(scope="module")
def planting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planting]:
    data = tmp_path_factory.mktemp("planted") / "data"
    with Instance(data, LOG_FORMAT="json", ACCESS_LOG="true") as running:
        running.manage("shell", "-c", MAKE_PEOPLE)
        running.start_server()
        running.start_worker()
        yield Planting(running)


def test_planted_secrets_are_found_nowhere(planting: Planting) -> None:
    plant_own_secrets(planting)
    plant_by_key(planting)
    plant_by_people(planting)
    plant_by_browser(planting)
    for path in ("/metrics", "/v1/audit?limit=1000", "/v1/audit/export", "/v1/keys?limit=1000", "/v1/openapi.json"):
        planting.send("GET", path, planting.planted["key"])
    planting.told["keys list"] = planting.instance.manage("keys", "list", "--json")
    planting.told["doctor"] = planting.instance.manage("doctor", "--json", check=False)
    places = at_rest(planting.instance) | {name: text.encode() for name, text in planting.told.items()}
    found = [
        f"{name} in {place}" for name, part in planting.parts() for place, content in places.items() if part in content
    ]
    assert found == []
    assert len(planting.planted) > 15 and len(places) > 30


def plant_own_secrets(planting: Planting) -> None:
    """The instance's own: peppers, Django's secret, the seeds that sign grants."""
    for path in sorted((planting.instance.data_dir / "secrets").iterdir()):
        if path.name == "grant_keys.json":
            seeds = [key["seed"] for key in json.loads(path.read_text())["keys"] if key["seed"]]
            planting.planted |= {f"seed {number}": seed for number, seed in enumerate(seeds)}
        elif path.is_file() and path.stat().st_size:
            planting.planted[f"file {path.name}"] = path.read_text().strip()


def plant_by_key(planting: Planting) -> None:
    """Keys right, wrong, rotated and mangled; secrets in bodies that are refused."""
    instance, send = planting.instance, planting.send
    key = planting.planted["key"] = instance.new_key("*")
    worker = planting.planted["worker's key"] = instance.new_key("workload:claim", "workload:execute", worker_id="w9")
    for number, bearer in enumerate((f"{key[:-1]}x", key[:-6], f"{key}{key}", f"fdb_live_planted{'Zq9' * 15}")):
        planting.planted[f"wrong bearer {number}"] = bearer
        assert send("GET", "/v1/collections", bearer).status_code == 401
    for body in (b"{", b'{"a": 1e999}', b'{"a":1,"a":2}'):
        assert send("POST", "/v1/collections/orders", key, content=body).status_code in (400, 415)
    secret = planting.planted["secret in work"] = "sk-planted0123456789abcdefghijklmnop"
    work = {"definition_id": "identity", "idempotency_key": "s", "input": {"x": secret}}
    assert send("POST", "/v1/workloads", key, json=work).status_code == 422
    send("POST", "/v1/workloads/claim", worker, json={"worker_id": "w9", "capabilities": ["identity"]})
    send("POST", "/v1/workloads/nothing/claim", worker, json={"worker_id": "somebody"})
    new = {"name": "over http", "scopes": ["state:read"], "namespaces": ["default"]}
    made = send("POST", "/v1/keys", key, shows="key over http", json=new).json()["id"]
    send("POST", f"/v1/keys/{made}/rotate", key, shows="rotated key", json={})
    send("GET", "/v1/collections", planting.planted["rotated key"])


def plant_by_people(planting: Planting) -> None:
    """Passwords right and wrong, one in the box for the name; a session used, refused and ended."""
    send = planting.send
    planting.planted |= {f"password of {name}": text for name, text in PASSWORDS.items()}
    planting.planted["wrong password"] = "wrong pass phrase 5Xw8"
    planting.planted["password as a name"] = "typed in the wrong box 3Jd6"
    send("POST", "/v1/auth/signin", None, json={"username": "vera", "password": planting.planted["wrong password"]})
    send("POST", "/v1/auth/signin", None, json={"username": planting.planted["password as a name"], "password": "x"})
    vera = {"username": "vera", "password": PASSWORDS["vera"]}
    send("POST", "/v1/auth/signin", None, shows="session", json=vera)
    for method, path in (("GET", "/v1/auth/session"), ("GET", "/v1/keys"), ("POST", "/v1/auth/signout")):
        send(method, path, planting.planted["session"])
    assert send("GET", "/v1/auth/session", planting.planted["session"]).status_code == 401


def plant_by_browser(planting: Planting) -> None:
    """A wrong password and a key by form at the console; then what its pages show."""
    with browser() as seen:
        page = seen.page
        page.goto(f"{planting.instance.url}/admin/")
        planting.planted["wrong console password"] = "not the one 9Lm4 at all"
        page.get_by_label("Name").fill("root")
        page.get_by_label("Password").fill(planting.planted["wrong console password"])
        page.get_by_role("button", name="Sign in").click()
        sign_in(page, planting.instance.url, "root", PASSWORDS["root"])
        cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
        planting.planted |= {f"cookie {name}": value for name, value in cookies.items()}
        assert {"sessionid", "csrftoken"} <= set(cookies)
        planting.planted["key by form"] = issue_a_key(page, planting.instance, "by form")
        for path in PAGES:
            page.goto(f"{planting.instance.url}/admin/{path}")
            planting.told[f"page {path}"] = page.content()


def at_rest(instance: Instance) -> dict[str, bytes]:
    """Return every file of the instance but its secrets, and every row of its database as text."""
    kept = instance.data_dir / "secrets"
    files = [path for path in instance.data_dir.rglob("*") if path.is_file() and kept not in path.parents]
    places = {str(path.relative_to(instance.data_dir)): path.read_bytes() for path in files}
    assert "processes.log" in places
    databases = [path for path in files if path.read_bytes()[:15] == b"SQLite format 3"]
    assert databases
    for path in databases:
        rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        places[f"rows of {path.name}"] = "\n".join(rows.iterdump()).encode()
        rows.close()
    return places
