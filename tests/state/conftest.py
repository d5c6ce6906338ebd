"""Fixtures of this room's tests: stores in a directory of the test's own, and clients of several authorities."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ApiClient


@pytest.fixture(autouse=True)
def _stores_of_its_own(data_dir: Path) -> None:
    """Every test of this room begins with empty stores."""


@pytest.fixture
def client(api: Callable[..., ApiClient]) -> ApiClient:
    """A client that holds every scope."""
    return api()


@pytest.fixture
def orders(client: ApiClient) -> Callable[..., Any]:
    """A function that stores an order and gives its record."""

    def put(record_id: str, **value: Any) -> Any:
        answer = client.put_json(f"/v1/collections/orders/{record_id}", value)
        assert answer.status_code in (200, 201), answer.content
        return answer.json()

    return put
