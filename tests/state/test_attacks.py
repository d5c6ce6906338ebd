"""Headers and ids used for what they were not given for: each is refused or means nothing, and nothing is changed."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.keys.services import ensure_namespace
from tests.conftest import ApiClient

RECORD = "/v1/collections/orders/o-1"
WRITES: dict[str, tuple[str, str, Any]] = {
    "create": ("POST", "/v1/collections/orders", {"id": "o-1", "n": 1}),
    "create elsewhere": ("POST", "/v1/collections/others", {"id": "o-1", "n": 1}),
    "create unnamed": ("POST", "/v1/collections/orders", {"n": 1}),
    "put": ("PUT", RECORD, {"n": 1}),
    "put another value": ("PUT", RECORD, {"n": 1.0}),
    "put elsewhere": ("PUT", "/v1/collections/orders/o-2", {"n": 1}),
    "swap": ("POST", f"{RECORD}/cas", {"expectedVersion": 0, "value": {"n": 1}}),
    "transact": (
        "POST",
        "/v1/transactions",
        {"operations": [{"collection": "orders", "id": "o-1", "value": {"n": 1}}]},
    ),
    "program": ("PUT", "/v1/capabilities/find", {"steps": [{"op": "identity"}]}),
}
LATER: dict[str, tuple[str, str, Any]] = {
    "merge": ("PATCH", RECORD, {"n": 1}),
    "delete": ("DELETE", RECORD, None),
}


def send(client: ApiClient, write: tuple[str, str, Any], key: str = "k") -> Any:
    method, path, body = write
    return client.call(method, path, body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize("first", WRITES)
def test_a_key_used_for_one_write_is_good_for_no_other_by_no_route(first: str, client: ApiClient) -> None:
    done = send(client, WRITES[first])
    assert done.status_code in (200, 201), done.content
    at = client.get("/v1/revision").json()["revision"]
    for name, write in {**WRITES, **LATER}.items():
        again = send(client, write)
        if name == first:
            assert again.status_code in (200, 201)
            assert first == "transact" or again["Idempotent-Replay"] == "true"
        elif (name, client.get(RECORD).status_code) in (("merge", 404), ("delete", 404)):
            assert again.status_code in (404, 409)
        else:
            refusal = again.json()
            said = (again.status_code, refusal["code"], refusal["committed"])
            assert said == (409, "IDEMPOTENCY_CONFLICT", False), (name, refusal)
    assert client.get("/v1/revision").json()["revision"] == at


def test_an_idempotency_key_is_the_namespaces_and_free_in_another(
    client: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    assert send(client, WRITES["put"]).status_code == 201
    repeated = send(api(), WRITES["put"])
    assert (repeated.status_code, repeated["Idempotent-Replay"]) == (201, "true")
    elsewhere = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    made = send(elsewhere, WRITES["put another value"])
    assert made.status_code == 201 and "Idempotent-Replay" not in made.headers


def test_a_known_key_opens_nothing_that_the_callers_own_key_does_not(
    client: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    assert send(client, WRITES["put"]).status_code == 201
    narrow = api(make_key(scopes=["state:read", "state:write"], collections=["others"]))
    reader = api(make_key(scopes=["state:read"]))
    for caller in (narrow, reader):
        answer = send(caller, WRITES["put"])
        assert (answer.status_code, answer.json()["committed"]) == (403, False)


TAGS: dict[str, tuple[int, int]] = {
    '"1"': (200, 304),
    ' "1" ': (200, 304),
    '"9", "1"': (200, 304),
    '"9","1"': (200, 304),
    ',, "1" , ,': (200, 304),
    '"a,b", "1"': (200, 304),
    '"1,1"': (412, 200),
    '"a,b"': (412, 200),
    '""': (412, 200),
    'W/"1"': (412, 304),
    'W/"9", "1"': (200, 304),
    '"01"': (412, 200),
    '"+1"': (412, 200),
    '"1.0"': (412, 200),
    '"0"': (412, 200),
    '"\xb9"': (412, 200),
    '"' + "1" * 400 + '"': (412, 200),
    "*": (200, 304),
    '*, "1"': (400, 400),
    "1": (400, 400),
    "'1'": (400, 400),
    '"1': (400, 400),
    '1"': (400, 400),
    '"1" "1"': (400, 400),
    '"1""1"': (400, 400),
    'w/"1"': (400, 400),
    '/"1"': (400, 400),
    'W/ "1"': (400, 400),
    '"1";q=1': (400, 400),
    '"1\\"': (412, 200),
    "": (400, 400),
    ",": (400, 400),
    ", ".join(['"9"'] * 1000): (400, 400),
    '"' * 1001: (400, 400),
}


@pytest.mark.parametrize("given", TAGS, ids=lambda given: given[:20])
def test_a_list_of_entity_tags_is_read_as_the_standard_says_or_refused(given: str, client: ApiClient) -> None:
    client.put_json(RECORD, {"n": 1})
    matched, unmatched = TAGS[given]
    assert client.get(RECORD, headers={"If-Match": given}).status_code == matched
    assert client.get(RECORD, headers={"If-None-Match": given}).status_code == unmatched
    written = client.put_json(RECORD, {"n": 2}, headers={"If-Match": given})
    assert written.status_code == matched
    assert written.status_code == 200 or written.json()["committed"] is False
    assert client.get(RECORD).json()["version"] == (2 if matched == 200 else 1)


@pytest.mark.parametrize(
    "given",
    [
        "",
        " ",
        "x",
        "1",
        "-1",
        "../../x",
        "a" * 32 + "--5",
        "a" * 32 + "-\xb2",
        "\xe9",
        "a" * 9000,
        "a" * 32 + "-1 ",
        "0-0-0",
    ],
)
def test_a_last_event_id_that_no_event_had_is_refused_before_a_stream_opens(given: str, client: ApiClient) -> None:
    answer = client.get("/v1/events", headers={"Last-Event-ID": given})
    assert (answer.status_code, answer.json()["code"]) in ((422, "INVALID_CURSOR"), (410, "CURSOR_UNKNOWN"))


def test_no_number_in_a_feeds_cursor_breaks_anything(client: ApiClient) -> None:
    instance = client.get("/v1/revision").json()["scope"]
    for number in ("9" * 18, "18446744073709551615", "18446744073709551616", "9" * 200, "00", "1e3", "\uff11", "-0"):
        for path in ("/v1/changes", "/v1/events"):
            answer = client.get(path, {"after": f"{instance}-{number}"})
            assert answer.status_code in (410, 422) or (number == "00" and answer.status_code == 200), number
