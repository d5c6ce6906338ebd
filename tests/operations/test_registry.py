"""Nothing in the console changes a row but through a service: the registry is walked, every door of Django is tried."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.core import serializers
from django.test import Client
from django.urls import reverse

from apps.http.pages.readonly import ReadOnlyAdmin

BOOKKEEPING = {"sessions.Session", "admin.LogEntry"}


def everything() -> str:
    """Return all rows of all tables but Django's own bookkeeping."""
    models = [model for model in apps.get_models() if model._meta.label not in BOOKKEEPING]
    rows = [row for model in models for row in model._default_manager.order_by("pk")]
    return serializers.serialize("json", rows)


def test_every_registered_model_is_read_only(console: Client, one_of_each: dict[Any, Any]) -> None:
    registry = admin.site._registry
    assert set(registry) == set(one_of_each), "give a new model of the console a row above"
    for model, model_admin in registry.items():
        assert isinstance(model_admin, ReadOnlyAdmin), model
        for row in (None, one_of_each[model]):
            assert not model_admin.has_change_permission(None, row), model  # type: ignore[arg-type]
            assert not model_admin.has_delete_permission(None, row), model  # type: ignore[arg-type]
        for write, arguments in (("save_model", 4), ("delete_model", 2), ("delete_queryset", 2)):
            with pytest.raises(TypeError, match="service"):
                getattr(model_admin, write)(*[None] * arguments)


def test_no_door_of_django_s_admin_changes_anything(console: Client, one_of_each: dict[Any, Any]) -> None:
    before = everything()
    for model, row in one_of_each.items():
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        fields = {field.name: "1" for field in model._meta.concrete_fields} | {"_save": "1", "post": "yes"}
        pk = {"Workload": "workload_id", "BulkOrder": "bulk_id"}.get(model.__name__, "pk")
        pk = getattr(row, pk)
        for door in (f"{base}_change", f"{base}_delete"):
            answer = console.post(reverse(door, args=[pk]), fields)
            assert answer.status_code in (403, 404, 405), (door, answer.status_code)
        for action in ("delete_selected", "unknown"):
            chosen = {"action": action, "_selected_action": [row.pk], "post": "yes", "_save": "1", "index": "0"}
            console.post(reverse(f"{base}_changelist"), chosen)
        assert everything() == before, model
