"""Records and storage in the console."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from apps.state import stores
from feltdb_engine.errors import StorageFailed
from feltdb_engine.model import Mutation
from tests.operations.offered import press
from tests.operations.scenes import RECOVERED, a_recovered_store


@pytest.fixture
def store(namespace: str) -> Iterator[Any]:
    opened = stores.store(namespace)
    yield opened
    live = [record for each in opened.collections() for record in opened.page(each.name, limit=1000).records]
    if live:
        opened.commit([Mutation(kind="delete", collection=record.collection, id=record.id) for record in live])


def put(store: Any, collection: str, record_id: str, **value: Any) -> None:
    store.commit([Mutation(kind="put", collection=collection, id=record_id, value=value)])


def test_collections_pages_and_one_record(console: Client, store: Any) -> None:
    assert "There is no record yet" in console.get("/admin/records/").content.decode()
    for number in range(60):
        put(store, "orders", f"{number:03d}", total=number, exact=9007199254740993, part=2.0)
    listed = console.get("/admin/records/").content.decode()
    assert "orders" in listed and ">60<" in listed
    first = console.get("/admin/records/collection/?collection=orders")
    assert [record.id for record in first.context["records"]] == [f"{number:03d}" for number in range(50)]
    second = console.get("/admin/records/collection/?collection=orders&after=049")
    assert second.context["records"][0].id == "050"
    shown = console.get("/admin/records/record/?collection=orders&id=007").content.decode()
    assert "9007199254740993" in shown and "2.0" in shown and "/v1/collections/orders/007" in shown


def test_hostile_ids_and_values_are_shown_and_never_obeyed(console: Client, store: Any) -> None:
    hostile = "<b>&\u202e é/.?#"
    put(store, "odd", hostile, **{hostile: hostile})
    listed = console.get("/admin/records/collection/?collection=odd")
    text = listed.content.decode()
    assert "&lt;b&gt;&amp;\\u202e é/.?#" in text and "<b>" not in text and "\u202e" not in text
    one = console.get("/admin/records/record/", {"collection": "odd", "id": hostile})
    assert one.status_code == 200 and "<b>" not in one.content.decode()


@pytest.mark.parametrize(
    "query", ["collection=orders&id=none", "collection=&id=1", "collection=a%20b&id=1", "id=1", "collection=orders&id="]
)
def test_what_is_no_record_is_not_found(console: Client, store: Any, query: str) -> None:
    assert console.get(f"/admin/records/record/?{query}").status_code == 404


def test_a_malformed_collection_is_not_found_and_an_unknown_one_empty(console: Client, store: Any) -> None:
    assert console.get("/admin/records/collection/?collection=a%20b").status_code == 404
    assert "No record of this collection" in console.get("/admin/records/collection/?collection=none").content.decode()


def test_the_box_finds_a_record_by_its_whole_key(console: Client, store: Any) -> None:
    put(store, "orders", "a:b", total=1)
    found = console.get("/admin/search/", {"q": "orders:a:b"})
    assert found.status_code == 302 and "id=a%3Ab" in found.headers["Location"]
    assert console.get("/admin/search/", {"q": "orders:none"}).status_code == 200


def test_a_store_that_cannot_be_read_is_told_on_the_page(console: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(namespace: str) -> Any:
        raise StorageFailed("The store refuses writes until it is recovered.")

    for module in ("apps.operations.console.records", "apps.operations.services.storage", "apps.state.stores"):
        monkeypatch.setattr(f"{module}.store", fails)
    answer = console.get("/admin/records/")
    assert answer.status_code == 503 and "refuses writes" in answer.content.decode()
    page = console.get("/admin/storage/")
    assert page.status_code == 200 and "STORAGE_FAILED" in page.content.decode()
    assert console.get("/admin/").status_code == 200
    assert console.get("/admin/triggers/trigger/").status_code == 200


def test_storage_shows_positions_and_a_recovery_until_somebody_has_looked(console: Client, namespace: str) -> None:
    assert "clean" in console.get("/admin/storage/").content.decode()
    a_recovered_store()
    end = stores.store(RECOVERED).health().byte_offset
    text = console.get("/admin/storage/").content.decode()
    assert f"4 bytes from byte {end}" in text and "I have looked at it" in text
    asked = press(console, "/admin/storage/", "storage_acknowledge", follow=True)
    assert "Noted" in asked.content.decode() and "I have looked at it" not in asked.content.decode()
    again = console.post(f"/admin/storage/{RECOVERED}/acknowledge/", {"seen": f"{end}+4"})
    assert again.status_code == 409 and "looked at already" in again.content.decode()
    assert console.post("/admin/storage/none/acknowledge/").status_code == 404
