"""Declared programs: run by any worker in the namespace that declares them, each step as the reference has it."""

import pytest

from apps.keys.services import ensure_namespace
from apps.state import programs, stores
from apps.workloads import capabilities, declared, services
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.models import Result, Workload
from apps.workloads.worker import Worker
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.test_worker import options

pytestmark = pytest.mark.django_db
in_a_worker = pytest.mark.django_db(transaction=True)


class Reading:
    """As much of a context as programs need that run in no worker."""

    def __init__(self, cancelled=False):
        self._cancelled = cancelled

    def cancelled(self):
        return self._cancelled

    def page(self, collection, *, after=None, limit=100):
        return stores.store(NAMESPACE).page(collection, after=after, limit=limit).records


ORDERS = {
    "a": {"status": "paid", "total": 1, "note": "tea"},
    "b": {"status": "draft", "total": 2, "note": "tea"},
    "c": {"status": "paid", "total": 1.0, "note": "TEA and milk"},
    "d": {"total": 3, "note": "tea"},
}


@pytest.fixture
def declare():
    """A function that stores programs, checked as every door checks them unless `raw`; and a few orders beside."""
    ensure_namespace(NAMESPACE)
    store = stores.store(NAMESPACE)
    store.commit([Mutation(kind="put", collection="orders", id=name, value=row) for name, row in ORDERS.items()])

    def make(name, *steps, raw=None):
        value = programs.read_program({"steps": list(steps)}).record() if raw is None else raw
        programs.read_name(name)
        stores.store(NAMESPACE).commit([Mutation(kind="put", collection=programs.COLLECTION, id=name, value=value)])

    yield make
    stores.close_all()


@pytest.fixture
def run(command):
    """A function that runs a definition on an input in a worker and returns the work."""

    def make(definition_id, input=None, key="k1"):
        request = command(key, definition_id=definition_id, input=input)
        work = services.admit(request, now_ms=now_ms()).workload
        Worker(options()).run_once()
        return work

    return make


def output_of(work):
    return Result.objects.get(workload=work).output


SEARCH_TEA = {"op": "search", "collection": "orders", "query": "tea"}


@pytest.mark.parametrize(
    ("steps", "input", "output"),
    [
        ([{"op": "identity"}], {"n": [1.0]}, {"n": [1.0]}),
        ([SEARCH_TEA, {"op": "project", "fields": ["id"]}], None, [{"id": name} for name in "abcd"]),
        ([SEARCH_TEA, {"op": "limit", "count": 1}, {"op": "project", "fields": ["total", "no"]}], None, [{"total": 1}]),
        # What a step leaves out comes from the value it is given.
        (
            [{"op": "search", "query": "milk"}, {"op": "project", "fields": ["id"]}],
            {"collection": "orders", "query": "tea"},
            [{"id": "c"}],
        ),
        ([{"op": "search"}], {"collection": "orders", "query": "draft", "limit": 1}, [{"id": "b", **ORDERS["b"]}]),
        # Equality is that of type and value; an item without the member is dropped.
        (
            [SEARCH_TEA, {"op": "filter_eq", "field": "total", "value": 1}, {"op": "project", "fields": ["id"]}],
            None,
            [{"id": "a"}],
        ),
        ([{"op": "filter_eq", "field": "x", "value": None}], [{"x": None}, {}, 1, {"x": 0}], [{"x": None}]),
        ([{"op": "project", "fields": ["a"]}], {"a": 1, "b": 2}, {"a": 1}),
        ([{"op": "project", "fields": ["a"]}], [{"a": 1, "b": 2}, "text"], [{"a": 1}, "text"]),
        ([{"op": "limit", "count": 0}], [1, 2], []),
    ],
)
def test_each_step_is_given_what_the_one_before_gave(declare, steps, input, output):
    declare("report", *steps)
    found = declared.find(NAMESPACE, "report")
    assert found is not None and found.program(input, Reading()) == output


@pytest.mark.parametrize("op", [{"op": "filter_eq", "field": "a", "value": 1}, {"op": "limit", "count": 1}])
def test_a_step_that_needs_an_array_and_is_given_none_fails(declare, op):
    declare("report", op)
    found = declared.find(NAMESPACE, "report")
    with pytest.raises(Failed, match=f"{op['op']} was given no array") as failed:
        found.program({"a": 1}, Reading())
    assert failed.value.kind == "invalid_input"


def test_a_program_gives_up_between_steps_when_it_is_asked_to(declare):
    declare("report", {"op": "identity"})
    found = declared.find(NAMESPACE, "report")
    with pytest.raises(Cancelled):
        found.program(1, Reading(cancelled=True))


@in_a_worker
def test_a_record_that_no_door_would_have_let_in_fails_the_work_and_says_where(declare, run):
    declare("report", raw={"steps": [{"op": "drop"}]})
    work = run("report")
    assert state_of(work) == "DEAD_LETTER"
    assert Workload.objects.get(pk=work.pk).last_failure.startswith(
        "invalid_program: report is no program: /steps/0/op"
    )


@in_a_worker
def test_work_for_an_undeclared_program_waits_and_runs_once_it_is_declared(declare, run):
    work = run("report", 7)
    assert state_of(work) == "READY"
    declare("report", {"op": "identity"})
    assert Worker(options()).run_once() == 1 and output_of(work) == 7


@in_a_worker
def test_a_program_is_its_namespaces_own(declare, run, command):
    declare("report", {"op": "identity"})
    ensure_namespace("other")
    foreign = services.admit(command(namespace="other", definition_id="report"), now_ms=now_ms()).workload
    assert state_of(run("report")) == "SUCCEEDED" and state_of(foreign) == "READY"


@in_a_worker
def test_what_is_installed_goes_before_what_is_declared(declare, run, monkeypatch):
    monkeypatch.setattr(capabilities, "_registry", dict(capabilities._registry))
    capabilities.capability("report")(lambda input, context: "installed")
    declare("report", {"op": "identity"})
    assert output_of(run("report")) == "installed"


@in_a_worker
def test_a_declared_program_reads_under_the_works_authority_and_no_system_collection(declare, run):
    declare("report", {"op": "search", "query": "x"})
    work = run("report", {"collection": "_flow_capabilities"})
    assert Workload.objects.get(pk=work.pk).last_failure.startswith("collection_denied")


def test_names_no_record_can_have_are_not_looked_up(declare):
    assert not declared.is_declared(NAMESPACE, "a.b") and declared.find(NAMESPACE, "a.b") is None
    assert not declared.is_declared("no-such-namespace", "report")
