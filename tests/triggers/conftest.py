"""A namespace with a store, and short ways to define triggers, write records and evaluate."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.keys.principal import operator
from feltdb_engine import Actor, CommitResult, Mutation, Store

BY = operator("tests")


class World:
    """One namespace and what tests do in it. `now_ms` is the clock; tests move it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.now_ms = 10

    @property
    def store(self) -> Store:
        from apps.state import stores

        return stores.store(self.namespace)

    def write(self, *mutations: Mutation, actor: Actor | None = None, **kwargs: Any) -> CommitResult:
        return self.store.commit(mutations, actor=actor or Actor(), at_ms=self.now_ms, **kwargs)

    def put(self, collection: str, record_id: str, value: dict[str, Any], **kwargs: Any) -> CommitResult:
        return self.write(Mutation(kind="put", collection=collection, id=record_id, value=value), **kwargs)

    def delete(self, collection: str, record_id: str) -> CommitResult:
        return self.write(Mutation(kind="delete", collection=collection, id=record_id))

    def define(self, trigger_id: str = "on-order", **members: Any) -> Any:
        from apps.triggers import services

        document = {
            "trigger_id": trigger_id,
            "source_collection": "orders",
            "change_kind": "insert",
            "target_capability": "identity",
            "tenant_id": self.namespace,
            "application_id": "app",
            "requested_by": {"kind": "agent", "id": "trigger-agent"},
        }
        given = {name: value for name, value in (document | members).items() if value is not ...}
        return services.define(self.namespace, given, by=BY, now_ms=self.now_ms).trigger

    def evaluate(self) -> list[Any]:
        from apps.triggers import services

        return services.evaluate_namespace(self.namespace, now_ms=self.now_ms, pause=lambda _: None)

    def workloads(self) -> list[Any]:
        from apps.workloads.models import Workload

        return list(Workload.objects.filter(namespace=self.namespace).select_related("request").order_by("id"))

    def workload(self, workload_id: str) -> Any:
        from apps.workloads.models import Workload

        return Workload.objects.select_related("request").get(workload_id=workload_id)

    def trigger(self, trigger_id: str = "on-order") -> Any:
        from apps.triggers.models import Trigger

        return Trigger.objects.select_related("cursor").get(namespace=self.namespace, trigger_id=trigger_id)

    def cursor(self, trigger_id: str = "on-order") -> int:
        return int(self.trigger(trigger_id).cursor.sequence)

    def set_cursor(self, sequence: int, trigger_id: str = "on-order") -> None:
        """Put a cursor elsewhere behind everybody's back, as a restored database would."""
        from apps.triggers.models import TriggerCursor

        TriggerCursor.objects.filter(trigger=self.trigger(trigger_id)).update(sequence=sequence)

    def restart(self) -> None:
        """Forget everything that only this process knows."""
        from apps.state import stores

        stores.close_all()


@pytest.fixture
def own_stores(tmp_path: Path, settings: Any) -> Iterator[None]:
    """A data directory of the test's own, and no store left open."""
    from apps.state import stores

    stores.close_all()
    settings.DATA_DIR = tmp_path
    yield
    stores.close_all()


@pytest.fixture
def world(transactional_db: None, own_stores: None) -> World:
    """A namespace of the test's own, in a database with real transactions."""
    from apps.keys.services import ensure_namespace

    return World(ensure_namespace("test").name)


@pytest.fixture
def other_world(world: World) -> Callable[[str], World]:
    """A function that makes another namespace."""
    from apps.keys.services import ensure_namespace

    return lambda name: World(ensure_namespace(name).name)


@pytest.fixture
def copies(world: World, tmp_path: Path) -> Any:
    """What keeps the world's store and database and puts them back, apart from each other."""
    from tests.triggers.apart import Copies

    return Copies(world, tmp_path)


@pytest.fixture
def three(world: Any) -> Any:
    """A trigger and three changes not yet evaluated."""
    world.define()
    for number in range(1, 4):
        world.put("orders", str(number), {"n": number})
    return world


@pytest.fixture
def poisoned(world: Any) -> Any:
    """A trigger with a change in quarantine."""
    world.define()
    world.put("orders", "1", {"password": "hunter2"})
    world.evaluate()
    return world
