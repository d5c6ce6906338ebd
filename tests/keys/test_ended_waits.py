"""A key that ends takes with it what waits on its behalf: the feed's readers, the waiting claims. The wait is real
until the moment the key ends, which happens inside the look that the request makes."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.keys import services, verify
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from apps.state.stores import store
from apps.workloads.bell import Bell
from apps.workloads.models import Workload
from feltdb_engine import Mutation, Store
from tests.conftest import ApiClient

OPERATOR = operator("tests")
CLAIM = {"worker_id": "w1", "capabilities": ["identity"], "wait_ms": 20_000}


def revoke(key: ApiKey) -> None:
    services.revoke_key(key.id, by=OPERATOR)


def expire(key: ApiKey) -> None:
    """As time would, in every process at once: what was read before the expiry was set is forgotten."""
    ApiKey.objects.filter(pk=key.id).update(expires_at=services.utc_now() - timedelta(seconds=1))
    verify.forget_all()


def narrow(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.id).update(scopes=["state:read"])
    verify.forget_all()


ENDINGS = pytest.mark.parametrize("end", [revoke, expire, narrow])


@pytest.fixture(autouse=True)
def _stores_of_its_own(data_dir: Path) -> None:
    """Every test begins with empty stores."""


@ENDINGS
def test_a_key_that_ends_ends_its_wait_for_changes_and_sees_none_that_came_later(
    end: Callable[[ApiKey], None],
    api: Callable[..., ApiClient],
    make_key: Callable[..., Any],
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = make_key(scopes=["events:read"])

    def key_ends_and_then_something_is_written(self: Store, *_: Any) -> bool:
        end(reader.key)
        store(namespace).commit([Mutation(kind="put", collection="orders", id="o-1", value={"secret": "later"})])
        return True

    monkeypatch.setattr(Store, "wait_for_change", key_ends_and_then_something_is_written)
    answer = api(reader).get("/v1/changes", {"wait": 20})
    assert (answer.status_code, answer.json()["code"]) == (401, "AUTHENTICATION_REQUIRED")
    assert b"later" not in answer.content


@ENDINGS
def test_a_key_that_ends_ends_its_waiting_claim_and_claims_nothing(
    end: Callable[[ApiKey], None],
    api: Callable[..., ApiClient],
    make_key: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, creator = make_key(scopes=["workload:claim"], worker_id="w1"), api()

    def key_ends_and_then_work_comes(self: Bell, *_: Any, **__: Any) -> bool:
        end(worker.key)
        body = {"definition_id": "identity", "idempotency_key": "late", "input": {}}
        assert creator.post_json("/v1/workloads", body).status_code == 201
        return True

    monkeypatch.setattr(Bell, "wait", key_ends_and_then_work_comes)
    answer = api(worker).post_json("/v1/workloads/claim", CLAIM)
    assert (answer.status_code, answer.json()["code"]) == (401, "AUTHENTICATION_REQUIRED")
    assert list(Workload.objects.values_list("state", "fencing_token")) == [("READY", 0)]


def test_a_key_that_still_holds_gets_what_it_waited_for(
    api: Callable[..., ApiClient],
    make_key: Callable[..., Any],
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, other = make_key(scopes=["events:read"]), make_key()

    def another_key_ends_and_something_is_written(self: Store, *_: Any) -> bool:
        revoke(other.key)
        store(namespace).commit([Mutation(kind="put", collection="orders", id="o-1", value={})])
        return True

    monkeypatch.setattr(Store, "wait_for_change", another_key_ends_and_something_is_written)
    answer = api(reader).get("/v1/changes", {"wait": 20})
    assert [each["id"] for each in answer.json()["operations"]] == ["o-1"]
