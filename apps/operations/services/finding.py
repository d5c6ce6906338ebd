"""Finding a thing by its exact id, whatever it is. Rows are looked up in one statement, each kind in its own index.

What a store holds (records, changes, transactions, collections) is asked of the store of one namespace.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import CharField, F, QuerySet, Value
from django.db.models.functions import Cast
from django.urls import reverse

from apps.http.errors import ApiError
from apps.keys.models import ApiKey, AuditEvent, HumanSession, IssuedGrant, Namespace, Operator
from apps.operations.models import WorkerProcess
from apps.state.stores import store
from apps.triggers.models import Trigger
from apps.workloads.models import Request, Result, Workload
from feltdb_engine import EngineError, Store
from feltdb_engine.model import Cursor

MAX_FOUND = 50
"""Things of one name shown: the same id may stand in many namespaces."""

_OPERATION = re.compile(r"(?:operation:)?([0-9A-Za-z_-]{1,64})[:-]([0-9]{1,19})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A thing with its page in the console and the permission to see it."""

    kind: str
    name: str
    where: str
    url: str
    permission: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of row: `rows` of that name, what leads to its page (`key`), and what it is called."""

    label: str
    permission: str
    rows: Callable[[str, str], QuerySet[Any]]
    key: str
    name: str
    where: str | None
    url: Callable[[str, str], str]


def _page(view: str) -> Callable[[str, str], str]:
    return lambda key, where: reverse(f"admin:{view}", args=[key])


def _list(view: str, parameter: str) -> Callable[[str, str], str]:
    return lambda key, where: f"{reverse(f'admin:{view}')}?{urlencode({parameter: key})}"


KINDS = (
    Kind(
        label="work",
        permission="workloads.view_workload",
        rows=lambda text, _: Workload.objects.filter(workload_id=text),
        key="workload_id",
        name="workload_id",
        where="namespace",
        url=_page("workloads_workload_change"),
    ),
    Kind(
        label="work of this key",
        permission="workloads.view_workload",
        rows=lambda text, namespace: Request.objects.filter(namespace=namespace, idempotency_key=text),
        key="workload__workload_id",
        name="workload__workload_id",
        where="namespace",
        url=_page("workloads_workload_change"),
    ),
    Kind(
        label="result of work",
        permission="workloads.view_workload",
        rows=lambda text, namespace: Result.objects.filter(namespace=namespace, result_id=text),
        key="workload__workload_id",
        name="workload__workload_id",
        where="namespace",
        url=_page("workloads_workload_change"),
    ),
    Kind(
        label="trigger",
        permission="triggers.view_trigger",
        rows=lambda text, _: Trigger.objects.filter(trigger_id=text),
        key="pk",
        name="trigger_id",
        where="namespace",
        url=_page("triggers_trigger_change"),
    ),
    Kind(
        label="API key",
        permission="keys.view_apikey",
        rows=lambda text, _: ApiKey.objects.filter(pk=text),
        key="pk",
        name="name",
        where=None,
        url=_page("keys_apikey_change"),
    ),
    Kind(
        label="grant",
        permission="keys.view_issuedgrant",
        rows=lambda text, namespace: IssuedGrant.objects.filter(namespace=namespace, grant_id=text),
        key="pk",
        name="grant_id",
        where="namespace",
        url=_page("keys_issuedgrant_change"),
    ),
    Kind(
        label="session",
        permission="keys.view_humansession",
        rows=lambda text, _: HumanSession.objects.filter(pk=text),
        key="pk",
        name="pk",
        where=None,
        url=_page("keys_humansession_change"),
    ),
    Kind(
        label="person",
        permission="keys.view_operator",
        rows=lambda text, _: Operator.objects.filter(username=text),
        key="pk",
        name="username",
        where=None,
        url=_page("keys_operator_change"),
    ),
    Kind(
        label="worker process",
        permission="keys.view_namespace",
        rows=lambda text, _: WorkerProcess.objects.filter(pk=text),
        key="pk",
        name="pk",
        where="host_name",
        url=lambda key, where: reverse("admin:overload"),
    ),
    Kind(
        label="namespace",
        permission="keys.view_namespace",
        rows=lambda text, _: Namespace.objects.filter(pk=text),
        key="pk",
        name="pk",
        where=None,
        url=_list("index", "namespace"),
    ),
    Kind(
        label="request, in the audit",
        permission="keys.view_auditevent",
        rows=lambda text, _: AuditEvent.objects.filter(request_id=text),
        key="request_id",
        name="action",
        where="namespace",
        url=_list("keys_auditevent_changelist", "request_id"),
    ),
)


def find(text: str, namespace: str) -> list[Found]:
    """Return everything that is named exactly so: rows of every kind, and what the store of `namespace` holds."""
    return [*_rows(text, namespace), *_stored(text, namespace)][:MAX_FOUND]


def _rows(text: str, namespace: str) -> list[Found]:
    first, *others = [_named(place, kind, text, namespace) for place, kind in enumerate(KINDS)]
    found: list[Found] = []
    for place, key, name, where in first.union(*others, all=True)[:MAX_FOUND]:
        kind = KINDS[place]
        each = Found(kind=kind.label, name=name, where=where, url=kind.url(key, where), permission=kind.permission)
        if each.url not in [known.url for known in found]:
            found.append(each)
    return found


def _named(place: int, kind: Kind, text: str, namespace: str) -> Any:
    """Return the rows of one kind as (place of the kind, key, name, where), for one statement over all kinds."""
    where: Any = Value("") if kind.where is None else F(kind.where)
    return (
        kind.rows(text, namespace)
        .order_by()
        .annotate(
            found_kind=Value(place),
            found_key=Cast(F(kind.key), CharField()),
            found_name=Cast(F(kind.name), CharField()),
            found_where=Cast(where, CharField()),
        )
        .values_list("found_kind", "found_key", "found_name", "found_where")
    )


def _stored(text: str, namespace: str) -> list[Found]:
    """A record is named by its whole key, `collection:id`; a store that cannot be read hides what it holds only."""
    if not namespace:
        return []
    found = []
    for look in (_record, _collection, _transaction, _change):
        try:
            one = look(text, store(namespace))
        except (EngineError, ApiError):
            continue
        if one is not None:
            kind, view, parameters = one
            url = f"{reverse(f'admin:{view}')}?{urlencode({**parameters, 'namespace': namespace})}"
            found.append(Found(kind=kind, name=text, where=namespace, url=url, permission="keys.view_namespace"))
    return found


_Look = tuple[str, str, dict[str, Any]] | None


def _record(text: str, opened: Store) -> _Look:
    collection, colon, record_id = text.partition(":")
    if not colon:
        return None
    here = opened.get(text) is not None
    if not here and not opened.history(collection, record_id, 1).operations:
        return None
    return ("record" if here else "deleted record", "record", {"collection": collection, "id": record_id})


def _collection(text: str, opened: Store) -> _Look:
    return ("collection", "records", {"collection": text}) if opened.page(text, limit=1).records else None


def _transaction(text: str, opened: Store) -> _Look:
    return ("transaction", "transaction", {"id": text}) if opened.transaction(text) is not None else None


def _change(text: str, opened: Store) -> _Look:
    """A change is named by its sequence, by its place in the feed, or as an operation's id (`operation:...`)."""
    if text.isascii() and text.isdigit() and len(text) <= 19:
        sequence = int(text)
    elif (match := _OPERATION.fullmatch(text)) is not None:
        sequence = int(match[2])
        opened.changes(Cursor(instance_id=match[1], sequence=sequence), limit=1)  # refuses an unknown timeline
    else:
        return None
    held = opened.start().sequence < sequence <= opened.head().sequence
    return ("change", "change", {"sequence": sequence}) if held else None
