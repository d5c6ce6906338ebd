"""Very many keys: one is found by one statement over indexes, and every list looks at a bounded number of them."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.keys import limits, paging, peppers, reading, rows, services, token, verify
from apps.keys.models import ApiKey, KeySecret, Operator
from apps.keys.principal import Principal, operator

pytestmark = pytest.mark.django_db

MANY = 100_000
BATCH = 5_000
NOW = services.utc_now()
LIST = reverse("admin:keys_apikey_changelist")
STRANGER = Principal(
    kind="service", key_id="k", scopes=frozenset({"keys:admin"}), namespaces=frozenset({"a-quiet-place"})
)


def insert(count: int) -> None:
    """Insert keys as `issue_key` would, a minute apart."""
    for start in range(0, count, BATCH):
        places = range(start, min(count, start + BATCH))
        keys = [
            ApiKey(
                id=f"many{place:08d}",
                name=f"key {place}",
                namespaces=["default"],
                scopes=["state:read"],
                created_at=NOW - timedelta(minutes=place),
                created_by="human:tests",
            )
            for place in places
        ]
        ApiKey.objects.bulk_create(keys)
        KeySecret.objects.bulk_create(
            [
                KeySecret(key=key, digest=place.to_bytes(32, "big"), pepper_version=1, created_at=NOW)
                for place, key in zip(places, keys, strict=True)
            ]
        )


def plan(statement: str, parameters: list[Any]) -> list[str]:
    """Return the steps of the database's plan."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return [str(row[3]) for row in cursor.fetchall()]
        cursor.execute("ANALYZE keys_apikey; ANALYZE keys_keysecret")
        cursor.execute(f"EXPLAIN {statement}", parameters)
        return [str(row[0]) for row in cursor.fetchall()]


def scans(steps: list[str]) -> list[str]:
    """Return the steps that read a whole table of keys or secrets."""
    if connection.vendor == "sqlite":
        return [step for step in steps if step.startswith("SCAN") and "keys_" in step and "INDEX" not in step]
    return [step for step in steps if "Seq Scan on keys_" in step]


@pytest.fixture
def statements() -> Iterator[list[tuple[str, list[Any]]]]:
    """What `rows` asks the database."""
    asked: list[tuple[str, list[Any]]] = []
    fetch = rows._fetch
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "_fetch", lambda text, given: (asked.append((text, given)), fetch(text, given))[1])
        yield asked


def check_authentication(make_key: Callable[..., Any], statements: list[tuple[str, list[Any]]]) -> None:
    issued = make_key()
    unknown = token.new_token(token.new_key_id(), "live").text
    imported = "fdb_live_" + "7" * 48
    for secret, holds, most in ((issued.secret, True, 1), (unknown, False, 1), (imported, False, 2)):
        statements.clear()
        with CaptureQueriesContext(connection) as queries:
            assert (verify.principal_of(secret, now=services.utc_now()) is not None) == holds
        assert len(queries) == len(statements) <= most
        for text, parameters in list(statements):
            steps = plan(text, parameters)
            assert scans(steps) == [], steps
    digests = list(peppers.known().digests(imported).values())
    assert "imported_secret_by_digest" in str(plan(f"{rows._ALL} WHERE s.imported AND s.digest IN (%s)", digests[:1]))


def check_lists() -> None:
    console = Client()
    console.force_login(Operator.objects.create_superuser("alice", password="a long enough password"))
    for query in ("", "?state=live", "?state=revoked", "?kind__exact=worker", "?p=2", "?q=key 77"):
        with CaptureQueriesContext(connection) as queries:
            page = console.get(LIST + query)
        assert page.status_code == 200, query
        assert len(queries) <= 12, [each["sql"] for each in queries]
        assert len(page.context["cl"].result_list) <= page.context["cl"].list_per_page
    check_page(operator("tests"), found=limits.DEFAULT_PAGE)
    check_page(STRANGER, found=0)


def check_page(reader: Principal, *, found: int) -> None:
    looked_at: list[str] = []
    see = reading.may_see

    def seen(who: Principal, key: ApiKey) -> bool:
        looked_at.append(key.id)
        return see(who, key)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "may_see", seen)
        page = reading.list_keys(reader=reader, now=NOW, limit=limits.DEFAULT_PAGE)
    assert len(page.keys) == found and page.below is not None
    assert len(looked_at) <= limits.MAX_LOOKED_AT


def test_one_statement_over_indexes_finds_a_key(
    make_key: Callable[..., Any], statements: list[tuple[str, list[Any]]]
) -> None:
    insert(BATCH)
    check_authentication(make_key, statements)


def test_lists_look_at_a_bounded_number_of_keys() -> None:
    insert(BATCH)
    check_lists()


def test_a_page_that_looked_at_its_most_tells_nothing_of_what_it_left_out(make_key: Callable[..., Any]) -> None:
    insert(limits.MAX_LOOKED_AT + 5)
    mine = make_key(namespaces=["a-quiet-place"], now=NOW - timedelta(days=365)).key
    found, below, pages = [], None, 0
    while pages == 0 or below is not None:
        page = reading.list_keys(reader=STRANGER, now=NOW, below=below, limit=10)
        found, below, pages = found + page.keys, page.below, pages + 1
        cursor = paging.encode(below, "keys")
        assert cursor is None or "many" not in str(paging.decode(cursor, "keys"))
    assert (found, pages) == ([mine], 2)


def test_a_page_asks_the_database_for_no_more_keys_than_it_may_look_at() -> None:
    insert(limits.MAX_LOOKED_AT + 500)
    for reader, most in ((operator("tests"), limits.DEFAULT_PAGE + 200), (STRANGER, limits.MAX_LOOKED_AT + 200)):
        with CaptureQueriesContext(connection) as queries:
            reading.list_keys(reader=reader, now=NOW, limit=limits.DEFAULT_PAGE)
        asked_for = [re.search(r"LIMIT (\d+)", each["sql"]) for each in queries]
        assert None not in asked_for, [each["sql"] for each in queries]
        assert sum(int(found[1]) for found in asked_for if found) <= most


def test_pages_go_on_among_more_keys_of_one_instant_than_a_statement_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_AT_A_TIME", 2)
    insert(9)
    ApiKey.objects.update(created_at=NOW)
    found, below, pages = [], None, 0
    while pages == 0 or below is not None:
        page = reading.list_keys(reader=operator("tests"), now=NOW, below=below, limit=4)
        found, below, pages = found + [key.id for key in page.keys], page.below, pages + 1
    assert found == [f"many{place:08d}" for place in range(9)]
    assert [key.id for key in reading.list_keys(reader=STRANGER, now=NOW, limit=1).keys] == []


def test_a_key_made_between_two_statements_of_a_page_repeats_none(
    make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(600)
    see, looked_at = reading.may_see, []

    def seen(who: Principal, key: ApiKey) -> bool:
        looked_at.append(key.id)
        if len(looked_at) == 100:
            make_key(now=NOW + timedelta(minutes=1))
        return see(who, key) and int(key.id.removeprefix("many")) % 4 == 0

    monkeypatch.setattr(reading, "may_see", seen)
    page = reading.list_keys(reader=operator("tests"), now=NOW, limit=100)
    assert [key.id for key in page.keys] == [f"many{place:08d}" for place in range(0, 400, 4)]
    assert len(looked_at) == len(set(looked_at))


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_of_100_000_keys_the_same_holds(make_key: Callable[..., Any], statements: list[tuple[str, list[Any]]]) -> None:
    insert(MANY)
    check_authentication(make_key, statements)
    check_lists()
