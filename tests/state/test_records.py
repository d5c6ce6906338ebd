"""Single records over HTTP: every route's success, its refusals and its headers."""

import uuid

import pytest

ORDERS = "/v1/collections/orders"


def put(client, record_id, value, **headers):
    return client.put_json(f"{ORDERS}/{record_id}", value, headers=headers)


def test_a_created_record_comes_back_without_the_id_that_named_it(client):
    answer = client.post_json(ORDERS, {"id": "o-1", "amount": 250, "ratio": 1.0})
    assert answer.status_code == 201
    record = answer.json()
    assert record == {
        "id": "o-1",
        "key": "orders:o-1",
        "version": 1,
        "sequence": 1,
        "updated_at_ms": record["updated_at_ms"],
        "value": {"amount": 250, "ratio": 1.0},
    }
    assert answer["Location"] == "/v1/collections/orders/o-1"
    assert answer["ETag"] == '"1"'
    assert answer["FeltDB-Revision"] == "1"
    assert client.get(answer["Location"]).json() == record


def test_a_record_without_an_id_gets_a_time_ordered_uuid(client):
    first, second = (client.post_json(ORDERS, {"n": n}).json()["id"] for n in (1, 2))
    assert uuid.UUID(first).version == uuid.UUID(second).version == 7
    assert first < second


def test_creating_what_exists_is_a_conflict_and_changes_nothing(client):
    client.post_json(ORDERS, {"id": "o-1", "n": 1})
    answer = client.post_json(ORDERS, {"id": "o-1", "n": 2})
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert client.get(f"{ORDERS}/o-1").json()["value"] == {"n": 1}


@pytest.mark.parametrize("record_id", [7, None, "", ".", "..", "a\tb", "x" * 257, True, ["a"]])
def test_a_posted_id_that_breaks_the_rules_is_refused_with_its_pointer(client, record_id):
    answer = client.post_json(ORDERS, {"id": record_id})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"] == {"pointer": "/id"}


@pytest.mark.parametrize("body", [[], "text", 7, None, True])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_record_is_an_object_whatever_the_method(client, method, body):
    path = ORDERS if method == "POST" else f"{ORDERS}/o-1"
    answer = client.call(method, path, b"null" if body is None else body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")


def test_a_put_creates_then_replaces_whole(client):
    created = put(client, "o-1", {"a": 1, "b": 2})
    replaced = put(client, "o-1", {"a": 3})
    assert (created.status_code, replaced.status_code) == (201, 200)
    assert created.json()["version"] == 1
    assert replaced.json()["version"] == 2
    assert replaced.json()["value"] == {"a": 3}
    assert replaced["ETag"] == '"2"'
    assert replaced["FeltDB-Revision"] == "2"


def test_a_put_after_a_delete_creates_again_and_the_version_goes_on(client):
    put(client, "o-1", {"n": 1})
    assert client.delete(f"{ORDERS}/o-1").status_code == 204
    again = put(client, "o-1", {"n": 2})
    assert again.status_code == 201
    assert again.json()["version"] == 3


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_id_in_the_body_must_be_the_one_in_the_path(client, method):
    put(client, "o-1", {"n": 1})
    same = client.call(method, f"{ORDERS}/o-1", {"id": "o-1", "n": 2})
    other = client.call(method, f"{ORDERS}/o-1", {"id": "o-2", "n": 3})
    assert same.status_code == 200
    assert same.json()["value"] == {"n": 2}
    assert (other.status_code, other.json()["details"]) == (400, {"pointer": "/id"})


def test_a_merge_patch_replaces_removes_and_goes_into_objects(client):
    put(client, "o-1", {"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2]})
    answer = client.patch_json(f"{ORDERS}/o-1", {"a": None, "b": {"c": 9}, "e": [3]})
    assert answer.status_code == 200
    assert answer.json()["value"] == {"b": {"c": 9, "d": 3}, "e": [3]}
    assert answer.json()["version"] == 2
    assert client.get(f"{ORDERS}/o-1").json() == answer.json()


def test_reading_merging_and_deleting_what_is_absent_is_not_found(client):
    for answer in (
        client.get(f"{ORDERS}/o-1"),
        client.patch_json(f"{ORDERS}/o-1", {"a": 1}),
        client.delete(f"{ORDERS}/o-1"),
        client.get("/v1/collections/never/seen"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_a_delete_answers_204_without_a_body_and_moves_the_revision(client):
    put(client, "o-1", {"n": 1})
    answer = client.delete(f"{ORDERS}/o-1")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer["FeltDB-Revision"] == "2"
    assert client.get(f"{ORDERS}/o-1").status_code == 404


def test_head_answers_like_get_without_a_body(client):
    put(client, "o-1", {"n": 1})
    answer = client.head(f"{ORDERS}/o-1")
    assert (answer.status_code, answer.content, answer["ETag"]) == (200, b"", '"1"')


def test_options_names_the_methods(client):
    answer = client.options(f"{ORDERS}/o-1")
    assert answer.status_code == 204
    assert set(answer["Allow"].split(", ")) >= {"GET", "PUT", "PATCH", "DELETE"}


def test_a_method_the_route_does_not_have_answers_405_in_the_envelope(client):
    answer = client.post_json(f"{ORDERS}/o-1", {})
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


EXACT = {
    "zero": 0,
    "one": 1,
    "one_point": 1.0,
    "low": -(2**63),
    "high": 2**64 - 1,
    "past_double": 2**53 + 1,
    "small": 5e-324,
    "large": 1.7976931348623157e308,
    "third": 0.1,
    "minus_zero": -0.0,
    "text": 'é \U0001f600 "\\/\b\f\n\r\t \x7f',
    "empty": {"object": {}, "array": [], "string": "", "null": None},
    "": "empty name",
}


def test_numbers_and_text_come_back_exactly(client):
    put(client, "o-1", EXACT)
    for value in (
        client.get(f"{ORDERS}/o-1").json()["value"],
        client.get(ORDERS).json()["records"][0]["value"],
        client.get("/v1/changes").json()["operations"][0]["value"],
    ):
        assert value == EXACT
        assert {name: type(value[name]) for name in EXACT} == {name: type(EXACT[name]) for name in EXACT}
        assert str(value["minus_zero"]) == "-0.0"


def test_if_match_lets_only_the_named_version_be_replaced(client):
    put(client, "o-1", {"n": 1})
    assert put(client, "o-1", {"n": 2}, **{"If-Match": '"1"'}).status_code == 200
    stale = put(client, "o-1", {"n": 3}, **{"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "IF_MATCH_FAILED")
    assert stale.json()["currentVersion"] == 2
    assert put(client, "o-1", {"n": 4}, **{"If-Match": '"1", "2"'}).status_code == 200
    assert client.get(f"{ORDERS}/o-1").json()["value"] == {"n": 4}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_if_match_of_a_stale_version_refuses_every_write(client, method):
    put(client, "o-1", {"n": 1})
    put(client, "o-1", {"n": 2})
    answer = client.call(method, f"{ORDERS}/o-1", {"n": 3}, headers={"If-Match": '"1"'})
    assert answer.status_code == 412
    assert client.get(f"{ORDERS}/o-1").json()["value"] == {"n": 2}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_if_match_anything_needs_a_record(client, method):
    absent = client.call(method, f"{ORDERS}/o-1", {"n": 1}, headers={"If-Match": "*"})
    put(client, "o-1", {"n": 1})
    present = client.call(method, f"{ORDERS}/o-1", {"n": 2}, headers={"If-Match": "*"})
    assert (absent.status_code, present.status_code) == (412, 204 if method == "DELETE" else 200)


def test_if_none_match_anything_only_creates(client):
    assert put(client, "o-1", {"n": 1}, **{"If-None-Match": "*"}).status_code == 201
    assert put(client, "o-1", {"n": 2}, **{"If-None-Match": "*"}).status_code == 412
    assert client.get(f"{ORDERS}/o-1").json()["value"] == {"n": 1}


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_if_none_match_on_what_is_absent_is_still_not_found(client, method):
    answer = client.call(method, f"{ORDERS}/o-1", {}, headers={"If-None-Match": '"1"'})
    assert answer.status_code == 404


def test_a_read_of_a_known_version_answers_304(client):
    put(client, "o-1", {"n": 1})
    known = client.get(f"{ORDERS}/o-1", headers={"If-None-Match": 'W/"1"'})
    stale = client.get(f"{ORDERS}/o-1", headers={"If-None-Match": '"7"'})
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", '"1"')
    assert stale.status_code == 200
    assert client.get(f"{ORDERS}/o-1", headers={"If-Match": '"7"'}).status_code == 412


@pytest.mark.parametrize("tag", ["1", '"1', "", '"1" "2"', ", ".join(f'"{n}"' for n in range(33))])
def test_a_malformed_if_match_is_refused(client, tag):
    put(client, "o-1", {"n": 1})
    answer = put(client, "o-1", {"n": 2}, **{"If-Match": tag})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "If-Match"})


def test_compare_and_set_stores_at_the_expected_version_only(client):
    put(client, "o-1", {"n": 1})
    swapped = client.post_json(f"{ORDERS}/o-1/cas", {"expectedVersion": 1, "value": {"n": 2}})
    stale = client.post_json(f"{ORDERS}/o-1/cas", {"expectedVersion": 1, "value": {"n": 3}})
    assert swapped.status_code == 200
    assert swapped.json() == {
        "updated": True,
        "currentVersion": 2,
        "item": client.get(f"{ORDERS}/o-1").json(),
    }
    assert stale.status_code == 409
    refusal = stale.json()
    assert (refusal["code"], refusal["updated"], refusal["currentVersion"]) == ("VERSION_CONFLICT", False, 2)


def test_compare_and_set_from_nothing_creates_once(client):
    body = {"expectedVersion": 0, "value": {"n": 1}}
    assert client.post_json(f"{ORDERS}/o-1/cas", body).json()["currentVersion"] == 1
    again = client.post_json(f"{ORDERS}/o-1/cas", body)
    assert (again.status_code, again.json()["currentVersion"]) == (409, 1)
    absent = client.post_json(f"{ORDERS}/o-2/cas", {"expectedVersion": 4, "value": {}})
    assert (absent.status_code, absent.json()["currentVersion"]) == (409, 0)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"value": {}}, "/expectedVersion"),
        ({"expectedVersion": "1", "value": {}}, "/expectedVersion"),
        ({"expectedVersion": 1.0, "value": {}}, "/expectedVersion"),
        ({"expectedVersion": -1, "value": {}}, "/expectedVersion"),
        ({"expectedVersion": True, "value": {}}, "/expectedVersion"),
        ({"expectedVersion": 1}, "/value"),
        ({"expectedVersion": 1, "value": []}, "/value"),
        ({"expectedVersion": 1, "expected_version": 1, "value": {}}, "/expected_version"),
        ({"expectedVersion": 1, "value": {}, "a/b": 1}, "/a~1b"),
        ([], ""),
    ],
)
def test_a_compare_and_set_that_is_not_one_is_refused_with_its_pointer(client, body, pointer):
    answer = client.post_json(f"{ORDERS}/o-1/cas", body)
    assert (answer.status_code, answer.json()["details"]) == (400, {"pointer": pointer})


def test_an_idempotency_key_makes_each_write_happen_once(client):
    def twice(method, path, body=None):
        answers = [client.call(method, path, body, headers={"Idempotency-Key": f"{method} {path}"}) for _ in range(2)]
        assert [each.status_code for each in answers] == [answers[0].status_code] * 2
        assert answers[0].content == answers[1].content
        assert "Idempotent-Replay" not in answers[0].headers
        assert answers[1]["Idempotent-Replay"] == "true"
        return answers[0]

    created = twice("POST", ORDERS, {"n": 1})
    twice("PUT", f"{ORDERS}/o-1", {"n": 1})
    twice("PATCH", f"{ORDERS}/o-1", {"n": 2})
    twice("POST", f"{ORDERS}/o-1/cas", {"expectedVersion": 2, "value": {"n": 3}})
    twice("DELETE", f"{ORDERS}/o-1")
    assert uuid.UUID(created.json()["id"]).version == 8
    assert client.get("/v1/revision").json()["revision"] == 5


def test_a_repeated_write_answers_its_own_outcome_whatever_was_written_since(client):
    key = {"Idempotency-Key": "k-1"}
    put(client, "o-1", {"n": 1, "a": 1})
    first = client.patch_json(f"{ORDERS}/o-1", {"n": 2}, headers=key)
    put(client, "o-1", {"n": 3})
    again = client.patch_json(f"{ORDERS}/o-1", {"n": 2}, headers=key)
    assert again.content == first.content
    assert again.json()["value"] == {"n": 2, "a": 1}
    assert client.get(f"{ORDERS}/o-1").json()["value"] == {"n": 3}


def test_a_repeated_conditional_write_is_not_judged_again(client):
    put(client, "o-1", {"n": 1})
    headers = {"Idempotency-Key": "k-1", "If-Match": '"1"'}
    assert [put(client, "o-1", {"n": 2}, **headers).status_code for _ in range(2)] == [200, 200]


def test_an_idempotency_key_with_another_request_is_a_conflict(client):
    key = {"Idempotency-Key": "k-1"}
    put(client, "o-1", {"n": 1}, **key)
    for answer in (put(client, "o-1", {"n": 2}, **key), put(client, "o-2", {"n": 1}, **key)):
        assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize("key", ["", "k" * 129, "a\tb", "\xe9"])
def test_an_idempotency_key_that_breaks_the_rules_is_refused(client, key):
    answer = put(client, "o-1", {}, **{"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "Idempotency-Key"})


def test_a_value_over_a_mebibyte_is_refused_and_one_at_the_limit_is_not(client):
    room = 2**20 - len('{"t":""}')
    assert put(client, "o-1", {"t": "x" * room}).status_code == 201
    over = put(client, "o-2", {"t": "x" * (room + 1)})
    assert (over.status_code, over.json()["code"]) == (422, "VALIDATION_FAILED")


def test_a_body_over_the_limit_is_refused(client):
    answer = client.call("PUT", f"{ORDERS}/o-1", b" " * (2 * 2**20) + b"{}")
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
