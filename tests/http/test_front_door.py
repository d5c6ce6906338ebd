"""The bare address: where a browser is led, and what a program is told."""

import pytest
from django.test import Client

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def client(db: None, data_dir: object) -> Client:
    return Client(raise_request_exception=False)


def test_a_browser_is_led_to_the_console(client: Client) -> None:
    answer = client.get("/", headers={"Accept": BROWSER})
    assert (answer.status_code, answer["Location"], answer["Vary"]) == (302, "/admin/", "Accept")


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_a_program_is_told_where_everything_is_and_all_of_it_is_there(client: Client, accept: str) -> None:
    answer = client.get("/", headers={"Accept": accept} if accept else {})
    told = answer.json()
    assert (answer.status_code, told.pop("name"), answer["Vary"]) == (200, "FeltDB", "Accept")
    assert told.pop("version")
    assert set(told) == {"console", "docs", "openapi", "health"}
    for address in told.values():
        assert client.get(address).status_code in (200, 302), address


def test_nothing_else_is_done_there(client: Client) -> None:
    answer = client.post("/", "{}", content_type="application/json")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert client.head("/").status_code == 200
