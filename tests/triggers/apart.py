"""Store and database of a world, kept and put back apart from each other."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction

from apps.http.errors import ApiError
from apps.triggers import services
from apps.triggers.services import Unseen
from apps.workloads.commands import ClaimNext
from apps.workloads.services import claim_next
from tests.triggers.conftest import BY


class Copies:
    """Puts the store, or the database, of a world back to what it was."""

    def __init__(self, world: Any, aside: Path) -> None:
        self.world = world
        self.directory = aside / "namespaces" / world.namespace
        self.aside = aside / "aside"
        self.moved = 0

    def keep_store(self) -> None:
        self.world.restart()
        shutil.copytree(self.directory, self.aside)

    def put_store_back(self) -> None:
        """In place, as a volume's snapshot does: the directory stays the same one, so no timeline begins."""
        self.world.restart()
        for each in self.directory.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        shutil.copytree(self.aside, self.directory, dirs_exist_ok=True)

    def put_store_elsewhere(self) -> None:
        """As a copied directory: the store begins a timeline of its own."""
        self.world.restart()
        self.moved += 1
        self.directory.rename(self.directory.with_name(f"moved-{self.moved}"))  # whose place on the disk stays taken
        shutil.copytree(self.aside, self.directory)

    def keep_database(self) -> None:
        self.rows = {
            model: list(model._default_manager.order_by("pk").values())
            for room in ("triggers", "workloads")
            for model in apps.get_app_config(room).get_models()
        }

    def put_database_back(self) -> None:
        self.world.restart()
        with transaction.atomic():
            for model in reversed(self.rows):
                model._default_manager.all().delete()
            for model, rows in self.rows.items():
                model._default_manager.bulk_create([model(**row) for row in rows])


def put(world: Any, *names: str) -> None:
    for name in names:
        world.put("orders", name, {"name": name})


def names(world: Any) -> list[str]:
    """The records whose changes became work, in the order of the work."""
    return [row.request.input["record"]["name"] for row in world.workloads()]


def stopped(world: Any) -> str:
    with pytest.raises(ApiError) as refused:
        world.evaluate()
    assert refused.value.code == "CONTROL_PLANE_MISMATCH"
    return refused.value.message


def reconcile(world: Any, unseen: Unseen | None = None) -> Any:
    return services.reconcile(world.namespace, by=BY, now_ms=world.now_ms, unseen=unseen, reason="restored")


def claim(world: Any) -> list[Any]:
    command = ClaimNext(
        namespace=world.namespace,
        worker_id="w",
        principal="worker:w",
        capabilities=frozenset({"identity"}),
        lease_ms=30_000,
    )
    return claim_next(command, now_ms=world.now_ms)
