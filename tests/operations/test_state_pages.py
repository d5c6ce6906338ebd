"""Records as of a revision, changes, transactions, provenance, contract, idempotency, and finding any id.

Cost: about half a second each.
"""

import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.triggers import services as triggers
from apps.triggers.models import Trigger
from apps.workloads import services
from apps.workloads.clock import now_ms
from apps.workloads.commands import Failure
from feltdb_engine import Store
from feltdb_engine.model import Actor, Mutation
from tests.conftest import ApiClient
from tests.operations.conftest import NOW_MS
from tests.triggers.conftest import World


@pytest.fixture
def world(namespace: str, data_dir: Any) -> World:
    return World(namespace)


def put(store: Store, key: str, value: dict[str, Any], **members: Any) -> int:
    collection, _, record_id = key.partition(":")
    done = store.commit([Mutation(kind="put", collection=collection, id=record_id, value=value)], **members)
    return done.revision


def text(answer: Any) -> str:
    body: str = answer.content.decode()
    return body


def test_a_record_is_shown_as_of_an_earlier_revision_and_after_its_deletion(console: Client, world: World) -> None:
    first = put(world.store, "orders:1", {"status": "new", "n": 9007199254740993})
    put(world.store, "orders:1", {"status": "paid", "n": 9007199254740993})
    put(world.store, "orders:2", {"status": "new"})
    world.delete("orders", "1")
    path = "/admin/records/record/?collection=orders&id=1"
    then = text(console.get(f"{path}&as_of={first}"))
    assert "&quot;new&quot;" in then and "9007199254740993" in then and "As of revision 1" in then
    now = text(console.get(path))
    assert "It is deleted" in now and "/status" in now
    assert now.index("delete") < now.index("update") < now.index("insert")
    listed = text(console.get(f"/admin/records/collection/?collection=orders&as_of={first}"))
    assert listed.count("<tr>") == 2 and "id=1&amp;as_of=1" in listed
    assert "&quot;status&quot;" not in text(console.get("/admin/records/collection/?collection=orders&as_of=99"))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("as_of=99", "beyond the head"),
        ("as_of=x", "is no sequence"),
        ("as_of=3", "lies inside a transaction"),
        ("where=%7B", "not JSON"),
        ("where=%7B%22field%22%3A1%7D", "cannot be shown"),
        ("where=%7B%7D&text=a", "not for both"),
        ("where=%7B%7D&cursor=zz", "cannot be shown"),
    ],
)
def test_what_cannot_be_asked_is_told_on_the_page(console: Client, world: World, query: str, told: str) -> None:
    put(world.store, "orders:1", {})
    put(world.store, "orders:2", {})
    world.store.commit([Mutation(kind="put", collection="orders", id=str(number), value={}) for number in (3, 4)])
    answer = console.get(f"/admin/records/collection/?collection=orders&{query}")
    assert answer.status_code == 422 and told in text(answer), text(answer)


def test_records_that_match_are_found_by_condition_and_by_text(console: Client, world: World) -> None:
    for number in range(5):
        put(world.store, f"orders:{number}", {"n": number, "name": f"Ada {number}"})

    def ids(query: str) -> list[str]:
        shown = text(console.get(f"/admin/records/collection/?collection=orders&{query}"))
        return re.findall(r'<th scope="row"><a class="mono"[^>]*>([^<]*)<', shown)

    assert ids('where={"field": "n", "op": "gte", "value": 3}') == ["3", "4"]
    assert ids("text=ada%202") == ["2"]
    assert ids("text=ada&as_of=2") == ["0", "1"]


def test_a_value_of_a_mebibyte_is_cut_on_the_page_and_fetched_exactly(console: Client, world: World) -> None:
    value = {"big": "\u202e" + "x" * 1_040_000, "n": 2**64 - 1, "part": 1.0}
    put(world.store, "orders:1", value)
    page = text(console.get("/admin/records/record/?collection=orders&id=1"))
    assert "Fetch it whole" in page and len(page) < 200_000 and "\u202e" not in page
    whole = console.get("/admin/records/value/?collection=orders&id=1")
    assert whole["Content-Disposition"].startswith("attachment") and whole["Content-Type"] == "application/json"
    assert json.loads(whole.content) == value and b"18446744073709551615" in whole.content and b"1.0" in whole.content
    assert json.loads(console.get("/admin/records/value/?sequence=1").content) == value
    assert console.get("/admin/records/value/?sequence=9").status_code == 409
    assert console.get("/admin/records/value/?collection=orders&id=9").status_code == 404


def test_the_walk_goes_from_a_change_through_trigger_and_work_to_what_it_wrote_and_back(
    console: Client, world: World
) -> None:
    world.now_ms = now_ms()
    world.define("on-order")
    world.define("on-paid", change_kind="update")
    source = put(world.store, "orders:1", {"n": 1}, actor=Actor(subject="service:shop"), transaction_id="buy")
    world.evaluate()
    (work,) = world.workloads()
    claim = services.claim(
        services.ClaimById(
            namespace=world.namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1"
        ),
        now_ms=world.store.transaction_at(source)[0].at_ms,
    )
    services.start(claim.fence, now_ms=world.store.transaction_at(source)[0].at_ms)
    put(world.store, "other:1", {})
    actor = Actor(subject="worker:w1", workload_id=work.workload_id, trigger_id="on-order")
    wrote = put(world.store, "bills:1", {"of": "1"}, actor=actor, transaction_id=f"work:{work.workload_id}:bill")

    forward = text(console.get(f"/admin/changes/change/?sequence={source}"))
    assert work.workload_id in forward and "on-order" in forward and "service:shop" in forward and "buy" in forward
    made = text(console.get(f"/admin/changes/workload/{work.workload_id}/"))
    assert f"sequence={wrote}&" in made and f"sequence={source}&" in made and "bills:1" in made
    assert "other:1" not in made
    trigger = Trigger.objects.get(trigger_id="on-order")
    decision = f"/admin/triggers/trigger/{trigger.pk}/why/?change={world.store.head().instance_id}%3A{source}"
    assert f'href="{decision}"' in forward and f'href="{decision}"' in made
    explained = text(console.get(decision))
    assert "It fired" in explained and f"sequence={source}&" in explained and work.workload_id in explained
    back = text(console.get(f"/admin/changes/change/?sequence={wrote}"))
    assert work.workload_id in back and f"sequence={source}&" in back
    assert "No work came of it" in back
    assert work.workload_id in text(console.get(f"/admin/workloads/workload/{work.workload_id}/change/"))


def test_a_change_tells_of_triggers_that_made_no_work_and_of_what_stands_aside(console: Client, world: World) -> None:
    world.define("picky", predicate={"field": "n", "op": "gt", "value": 5})
    source = put(world.store, "orders:1", {"n": 1})
    world.evaluate()
    page = text(console.get(f"/admin/changes/change/?sequence={source}"))
    assert "it made no work" in page and "picky" in page and "No work came of it" in page
    (decision,) = re.findall(r'href="(/admin/triggers/trigger/\d+/why/[^"]+)"', page)
    assert "the predicate does not hold" in text(console.get(decision))


def test_what_a_work_wrote_is_looked_for_in_bounded_steps(
    console: Client, world: World, make_work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.operations.services import provenance

    monkeypatch.setattr(provenance, "MAX_READ_OPERATIONS", 10)
    monkeypatch.setattr(provenance, "READ_PAGE", 10)
    work = make_work("a")
    at_ms = NOW_MS + 10
    claim = services.claim(
        services.ClaimById(namespace=world.namespace, workload_id=work.workload_id, worker_id="w", principal="p"),
        now_ms=at_ms,
    )
    services.start(claim.fence, now_ms=at_ms)
    put(world.store, "a:before", {}, at_ms=1_000)
    for number in range(25):
        put(world.store, f"a:{number}", {}, at_ms=at_ms)
    mine = put(world.store, "a:mine", {}, at_ms=at_ms, actor=Actor(workload_id=work.workload_id))
    services.fail(claim.fence, Failure(kind="execution_error", error="no"), now_ms=at_ms + 5)
    first = text(console.get(f"/admin/changes/workload/{work.workload_id}/"))
    assert "a:mine" not in first and "10 changes made while it ran" in first
    address, steps = f"/admin/changes/workload/{work.workload_id}/", 0
    while "Look on" in (page := text(console.get(address))):
        following = re.search(r'href="([^"]*after=[^"]*)"', page)
        assert following is not None and steps < 5
        address, steps = following[1].replace("&amp;", "&"), steps + 1
    assert f"sequence={mine}&" in page and steps == 2


def test_changes_are_paged_backwards_and_by_collection(console: Client, world: World) -> None:
    for number in range(120):
        put(world.store, f"{'odd' if number % 2 else 'even'}:{number}", {})

    def sequences(query: str) -> list[int]:
        shown = text(console.get(f"/admin/changes/{query}"))
        return [int(each) for each in re.findall(r">(\d+)</a></th>", shown)]

    assert sequences("") == list(range(120, 70, -1))
    assert sequences("?upto=70") == list(range(70, 20, -1))
    assert sequences("?upto=20") == list(range(20, 0, -1))
    assert sequences("?collection=odd") == list(range(120, 20, -2))
    assert console.get("/admin/changes/?upto=121").status_code == 422


def test_the_ledger_and_the_transaction_page_tell_the_first_outcome(
    console: Client, world: World, make_work: Any
) -> None:
    world.write(
        *[Mutation(kind="put", collection="a", id=str(number), value={}) for number in range(3)], transaction_id="tx-1"
    )
    work = make_work("key-1")
    newest = text(console.get("/admin/idempotency/"))
    assert "tx-1" in newest and "key-1" in newest and work.workload_id in newest
    assert "revision 0 to 3" in text(console.get("/admin/idempotency/?key=tx-1"))
    assert work.workload_id in text(console.get("/admin/idempotency/?key=key-1"))
    assert "Nothing was done under this key" in text(console.get("/admin/idempotency/?key=none"))
    for query in ("id=tx-1", "sequence=1", "sequence=3"):
        page = text(console.get(f"/admin/changes/transaction/?{query}"))
        assert "0 to 3" in page and page.count('<th scope="row" class="number">') == 3
    assert console.get("/admin/changes/transaction/?id=none").status_code == 404
    assert console.get("/admin/changes/change/").status_code == 404
    assert console.get("/admin/changes/change/?sequence=4").status_code == 422


def test_the_contract_in_force_is_shown(console: Client, world: World) -> None:
    assert "There is no contract" in text(console.get("/admin/contract/"))
    world.store.activate_contract(
        {
            "collections": {
                "orders": {
                    "schema": {"type": "object", "required": ["status"]},
                    "unique": ["number"],
                    "references": [{"field": "customer", "collection": "customers"}],
                }
            }
        }
    )
    page = text(console.get("/admin/contract/"))
    for part in ("Revision 1", "required", "number", "customers"):
        assert part in page, part


def test_any_id_leads_to_its_page(console: Client, world: World, one_of_each: dict[Any, Any], make_work: Any) -> None:
    put(world.store, "orders:1", {}, transaction_id="tx-1")
    world.delete("orders", "1")
    put(world.store, "orders:2", {})
    work, head = make_work("key-2"), world.store.head()
    expected = {
        "tx-1": "/transaction/?id=tx-1",
        "2": "/changes/change/?sequence=2",
        str(head): f"/changes/change/?sequence={head.sequence}",
        f"operation:{head.instance_id}:3": "/changes/change/?sequence=3",
        "orders": "/records/collection/?collection=orders",
        "orders:1": "/records/record/?collection=orders&id=1",
        "orders:2": "/records/record/?collection=orders&id=2",
        "key-2": f"/workload/{work.workload_id}/",
        work.workload_id: f"/workload/{work.workload_id}/",
    }
    for model, path in (("ApiKey", "apikey"), ("HumanSession", "humansession"), ("IssuedGrant", "issuedgrant")):
        row = next(row for kind, row in one_of_each.items() if kind.__name__ == model)
        expected[getattr(row, "grant_id", row.pk)] = f"/keys/{path}/{row.pk}/"
    for text_, path in expected.items():
        answer = console.get("/admin/search/", {"q": text_})
        assert answer.status_code == 302 and path in answer["Location"], (text_, answer.get("Location"), text(answer))
    assert "admin" in console.get("/admin/search/", {"q": "admin"})["Location"]
    assert console.get("/admin/search/", {"q": "operation:ffffffff:3"}).status_code == 200
    assert triggers.find(world.namespace, "t").trigger_id == "t"


def test_a_request_is_found_in_the_audit(console: Client, world: World, api: Any, make_key: Any) -> None:
    client: ApiClient = api(make_key(scopes=["state:read"]))
    refused = client.put_json("/v1/collections/a/1", {})
    request_id = refused.json()["request_id"]
    answer = console.get("/admin/search/", {"q": request_id})
    assert answer.status_code == 302 and f"request_id={request_id}" in answer["Location"]
    assert "request.refused" in text(console.get(answer["Location"]))


def test_a_revision_far_back_is_shown_bit_by_bit_however_much_was_written_since(
    console: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer looks at one id at least and links to where it goes on; what cannot be traced is named and passed."""
    from apps.operations.console import records
    from feltdb_engine import limits

    first = world.store.commit(
        [Mutation(kind="put", collection="orders", id=str(number), value={"n": number}) for number in range(4)]
    ).revision
    for number in range(3):
        put(world.store, "orders:1", {"n": 10 + number})
    world.delete("orders", "2")
    monkeypatch.setattr(limits, "AS_OF_MAX_OPERATIONS", 2)
    listing = f"/admin/records/collection/?collection=orders&as_of={first}"
    assert console.get(listing).status_code == 422, "near, but there is too much: all that was written since is read"
    monkeypatch.setattr(records, "NEAR_OPERATIONS", 2)

    def whole(path: str) -> list[str]:
        return re.findall(r'class="mono" href="[^"]*id=(\d)', text(console.get(path)))

    assert whole(listing) == ["0", "1", "2", "3"]
    where = '{"field": "n", "op": "lte", "value": 2}'
    assert whole(f"{listing}&where={where}") == ["0", "1", "2"]
    assert "It was not there then" not in text(
        console.get(f"/admin/records/record/?collection=orders&id=2&as_of={first}")
    )
    monkeypatch.setattr(records, "soon", lambda: 0.0)
    seen, told, path = [], "", listing
    for _ in range(10):
        shown = text(console.get(path))
        seen += re.findall(r'class="mono" href="[^"]*id=(\d)', shown)
        told += shown
        found = re.search(r'href="([^"]*after=[^"]*)">(?:Next records|Look on)', shown)
        if found is None:
            break
        path = found[1].replace("&amp;", "&")
    assert seen == ["0", "2", "3"]
    assert "The record 1 was written too often since" in told and "It was left out" in told
    shown = console.get(f"{listing}&where={where}&after=0")
    assert shown.status_code == 200 and "not all was looked at yet" in text(shown)
    one = console.get(f"/admin/records/record/?collection=orders&id=1&as_of={first}")
    assert one.status_code == 422 and "was written too often since" in text(one)
