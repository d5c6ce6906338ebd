"""Finding a thing by its exact id, whatever it is. Each kind is one look into an index."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.models import ApiKey, Namespace
from apps.state.stores import store
from apps.triggers.models import Trigger
from apps.workloads.models import Workload
from feltdb_engine import EngineError

MAX_TRIGGERS = 20
"""Triggers of one id shown: the same id may stand in many namespaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A thing with its page in the console and the permission to see it."""

    kind: str
    name: str
    where: str
    url: str
    permission: str


def find(text: str, namespace: str) -> list[Found]:
    """Return everything that is named exactly so: work, triggers, keys, namespaces, and a record of `namespace`."""
    found = [
        Found(
            kind="work",
            name=work.workload_id,
            where=work.namespace,
            url=reverse("admin:workloads_workload_change", args=[work.workload_id]),
            permission="workloads.view_workload",
        )
        for work in Workload.objects.filter(workload_id=text)
    ]
    found += [
        Found(
            kind="trigger",
            name=trigger.trigger_id,
            where=trigger.namespace,
            url=reverse("admin:triggers_trigger_change", args=[trigger.pk]),
            permission="triggers.view_trigger",
        )
        for trigger in Trigger.objects.filter(trigger_id=text).order_by("namespace")[:MAX_TRIGGERS]
    ]
    found += _records(text, namespace)
    found += [
        Found(
            kind="API key",
            name=f"{key.name} ({key.id})",
            where=", ".join(key.namespaces),
            url=reverse("admin:keys_apikey_change", args=[key.pk]),
            permission="keys.view_apikey",
        )
        for key in ApiKey.objects.filter(pk=text)
    ]
    found += [
        Found(
            kind="namespace",
            name=each.name,
            where="",
            url=f"{reverse('admin:index')}?namespace={each.name}",
            permission="keys.view_namespace",
        )
        for each in Namespace.objects.filter(pk=text)
    ]
    return found


def _records(text: str, namespace: str) -> list[Found]:
    """A record is named by its whole key, `collection:id`. A store that cannot be read hides its records only."""
    collection, colon, record_id = text.partition(":")
    if not colon or not namespace:
        return []
    try:
        record = store(namespace).get(text)
    except (EngineError, ApiError):
        return []
    if record is None:
        return []
    where = urlencode({"collection": collection, "id": record_id, "namespace": namespace})
    url = f"{reverse('admin:record')}?{where}"
    return [Found(kind="record", name=text, where=namespace, url=url, permission="keys.view_namespace")]
