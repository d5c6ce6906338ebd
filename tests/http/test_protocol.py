"""The protocol version a client may ask for."""

import pytest


@pytest.mark.parametrize("asked", ["2", "0", "", "1.0", " 1x"])
def test_another_protocol_version_is_refused_on_every_route(api, asked):
    for path in ("/v1/revision", "/v1/nowhere", "/v1/openapi.json"):
        answer = api(None).get(path, headers={"FeltDB-Protocol": asked})
        assert (answer.status_code, answer.json()["code"]) == (426, "PROTOCOL_UNSUPPORTED")
        assert answer["X-Request-ID"] == answer.json()["request_id"]


def test_our_version_and_none_are_served(api):
    assert api(None).get("/v1/revision", headers={"FeltDB-Protocol": "1"}).status_code == 401
    assert api(None).get("/v1/revision").status_code == 401


def test_every_answer_that_is_there_whole_tells_its_length(api, namespace):
    answers = [
        api(None).get("/v1/revision", headers={"FeltDB-Protocol": "2"}),
        api(None).get("/v1/revision", headers={"FeltDB-Numbers": "odd"}),
        api(None).get("/v1/nowhere"),
        api(None).get("/health"),
        api().get("/v1/revision", headers={"FeltDB-Numbers": "string"}),
    ]
    assert [answer.status_code for answer in answers] == [426, 400, 404, 200, 200]
    for answer in answers:
        assert int(answer["Content-Length"]) == len(answer.content) > 0
