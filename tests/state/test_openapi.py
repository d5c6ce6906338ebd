"""The OpenAPI document: valid, complete over the URL map, and telling the truth about what routes answer."""

import json
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from apps.http import strict_json
from apps.http.codes import CODES
from apps.state.api.documents import document

ROOT = Path(__file__).resolve().parents[2]
SELF_DESCRIPTION = {"/v1/openapi.json", "/v1/docs"}


@pytest.fixture(scope="module")
def openapi():
    return strict_json.loads(document())


def routes(patterns=None, prefix="/"):
    """Every (method, path) under /v1 in the URL map, the path as OpenAPI writes it."""
    for each in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns, prefix + str(each.pattern))
        elif isinstance(each, URLPattern):
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", prefix + str(each.pattern))
            view = getattr(each.callback, "cls", None)
            methods = ["get", "post", "put", "patch", "delete"]
            for method in methods if view else ["get"]:
                if view is None or hasattr(view, method):
                    yield method, path


def operations(openapi):
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_document_is_valid_openapi(openapi):
    assert openapi["openapi"].startswith("3.1")
    validate_schema(openapi)


def test_every_route_is_documented_and_nothing_else(openapi):
    there = {(method, path) for method, path in routes() if path.startswith("/v1/") and path not in SELF_DESCRIPTION}
    assert {(method, path) for method, path, _ in operations(openapi)} == there


def test_the_committed_file_is_the_document_that_is_served(openapi):
    committed = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    assert committed == openapi, "routes or shapes have changed: `make docs` writes docs/openapi.json anew"


def test_every_operation_has_a_summary_a_tag_and_an_id_of_its_own(openapi):
    ids = []
    for method, path, operation in operations(openapi):
        assert operation.get("summary"), (method, path)
        assert operation["tags"], (method, path)
        ids.append(operation["operationId"])
    assert len(ids) == len(set(ids))


def test_every_operation_names_its_refusals_by_code(openapi):
    for method, path, operation in operations(openapi):
        codes = operation["x-error-codes"]
        assert codes, (method, path)
        for code in codes:
            examples = operation["responses"][str(CODES[code].status)]["content"]["application/json"]["examples"]
            assert code in examples, (method, path, code)


def test_every_body_and_every_answer_has_a_shape(openapi):
    for method, path, operation in operations(openapi):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [each.get("content", {}) for status, each in operation["responses"].items() if status < "300"]
        for content in contents:
            for media in content.values():
                assert media["schema"], (method, path)
                if operation["tags"] == ["State"] and path != "/v1/runtime":
                    assert media.get("examples"), (method, path)


def resolved(openapi, schema):
    return Draft202012Validator({**schema, "components": openapi["components"]})


def test_every_example_fits_its_shape(openapi):
    for method, path, operation in operations(openapi):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (media for body in bodies for media in body.get("content", {}).values()):
            for name, example in media.get("examples", {}).items():
                if "$ref" in example:
                    example = openapi["components"]["examples"][example["$ref"].rpartition("/")[2]]
                faults = list(resolved(openapi, media["schema"]).iter_errors(example["value"]))
                assert not faults, (method, path, name, faults[0].message)


def test_every_reference_leads_somewhere(openapi):
    text = document().decode()
    for name in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
        assert name in openapi["components"]["schemas"]


CALLS = [
    ("get", "/v1/collections", "/v1/collections", None),
    ("get", "/v1/collections/{collection}", "/v1/collections/orders", None),
    ("get", "/v1/collections/{collection}", "/v1/collections/orders?limit=1", None),
    ("get", "/v1/collections/{collection}", "/v1/collections/-", None),
    ("post", "/v1/collections/{collection}", "/v1/collections/orders", {"id": "o-9"}),
    ("post", "/v1/collections/{collection}", "/v1/collections/orders", {"id": "o-1"}),
    ("get", "/v1/collections/{collection}/{record}", "/v1/collections/orders/o-1", None),
    ("get", "/v1/collections/{collection}/{record}", "/v1/collections/orders/none", None),
    ("put", "/v1/collections/{collection}/{record}", "/v1/collections/orders/o-1", {"n": 1}),
    ("put", "/v1/collections/{collection}/{record}", "/v1/collections/orders/o-8", {"n": 1}),
    ("patch", "/v1/collections/{collection}/{record}", "/v1/collections/orders/o-1", {"n": 1}),
    ("delete", "/v1/collections/{collection}/{record}", "/v1/collections/orders/o-2", None),
    (
        "post",
        "/v1/collections/{collection}/{record}/cas",
        "/v1/collections/orders/o-1/cas",
        {"expectedVersion": 1, "value": {}},
    ),
    (
        "post",
        "/v1/collections/{collection}/{record}/cas",
        "/v1/collections/orders/o-1/cas",
        {"expectedVersion": 9, "value": {}},
    ),
    ("post", "/v1/query", "/v1/query", {"collection": "orders", "where": [{"field": "n", "op": "eq", "value": 1}]}),
    ("post", "/v1/query", "/v1/query", {"collection": "orders", "where": [{"field": "n"}]}),
    ("post", "/v1/query", "/v1/query", {"collection": "orders", "count": True, "limit": 0}),
    ("post", "/v1/collections/{collection}/search", "/v1/collections/orders/search", {"query": "x"}),
    ("post", "/v1/collections/{collection}/search", "/v1/collections/orders/search", {"query": ""}),
    ("get", "/v1/collections/{collection}/{record}/history", "/v1/collections/orders/o-1/history", None),
    ("get", "/v1/collections/{collection}/{record}/history", "/v1/collections/orders/none/history", None),
    ("get", "/v1/collections/{collection}/{record}/provenance", "/v1/collections/orders/o-1/provenance", None),
    ("get", "/v1/collections/{collection}/{record}/provenance", "/v1/collections/orders/none/provenance", None),
    ("put", "/v1/collections/{collection}/indexes/{index}", "/v1/collections/orders/indexes/i", {"fields": ["n"]}),
    ("put", "/v1/collections/{collection}/indexes/{index}", "/v1/collections/orders/indexes/i", {"fields": []}),
    ("get", "/v1/collections/{collection}/indexes/{index}", "/v1/collections/orders/indexes/i", None),
    ("delete", "/v1/collections/{collection}/indexes/{index}", "/v1/collections/orders/indexes/i", None),
    ("post", "/v1/transactions", "/v1/transactions", {"operations": [{"collection": "a", "id": "b", "value": {}}]}),
    (
        "post",
        "/v1/transactions",
        "/v1/transactions",
        {"operations": [{"collection": "a", "id": "b", "value": {}, "expectedVersion": 5}]},
    ),
    ("get", "/v1/transactions/{transaction}", "/v1/transactions/t-1", None),
    ("get", "/v1/transactions/{transaction}", "/v1/transactions/t-2", None),
    ("get", "/v1/changes", "/v1/changes", None),
    ("get", "/v1/changes", "/v1/changes?after=7", None),
    ("get", "/v1/revision", "/v1/revision", None),
    ("get", "/v1/runtime", "/v1/runtime", None),
]


@pytest.mark.parametrize(("method", "route", "path", "body"), CALLS)
def test_an_answer_is_the_one_the_document_promises(client, openapi, method, route, path, body):
    client.put_json("/v1/collections/orders/o-1", {"n": 1}, headers={"Idempotency-Key": "t-1"})
    client.put_json("/v1/collections/orders/o-2", {"n": 1})
    answer = client.call(method.upper(), path, body)
    promised = openapi["paths"][route][method]["responses"][str(answer.status_code)]
    for name in promised.get("headers", {}):
        assert name in answer.headers or name == "Idempotent-Replay", name
    if "content" not in promised:
        assert answer.content == b""
        return
    faults = list(resolved(openapi, promised["content"]["application/json"]["schema"]).iter_errors(answer.json()))
    assert not faults, faults[0].message
    if answer.status_code >= 400:
        assert answer.json()["code"] in openapi["paths"][route][method]["x-error-codes"]


def test_the_document_and_its_page_are_open_and_load_nothing_from_elsewhere():
    anybody = Client()
    assert anybody.get("/v1/openapi.json").json()["info"]["title"] == "FeltDB"
    page = anybody.get("/v1/docs")
    assert page.status_code == 200
    assert "script-src 'self'" in page["Content-Security-Policy"]
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
    assert len(sources) >= 4
    for source in sources:
        assert source.startswith("/"), source


def test_every_group_of_routes_has_its_place_and_its_line_in_the_live_reference(openapi):
    used = {tag for path in openapi["paths"].values() for route in path.values() for tag in route["tags"]}
    placed = [each["name"] for each in openapi["tags"]]
    assert sorted(placed) == sorted(used) and placed[0] == "State"
    assert all(each["description"] for each in openapi["tags"])
