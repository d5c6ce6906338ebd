"""Statements kept as text: they do what Django's own would, guard for guard."""

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.workloads import services, statements
from apps.workloads.commands import ClaimNext, Completion, Timeouts
from apps.workloads.models import Attempt, Dependency, Event, Request, Workload
from tests.workloads.conftest import NAMESPACE

pytestmark = pytest.mark.django_db


def test_a_row_read_is_the_row_django_reads(make_work):
    work = make_work(input={"a": [1, 2.50, None], "z": "ü"})
    for model in (Workload, Request):
        (ours,) = statements.fetch(model, **{"id" if model is Workload else "workload_id": work.pk})
        theirs = model.objects.get(pk=work.pk)
        names = [field.attname for field in model._meta.concrete_fields]
        assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]


def test_rows_are_found_by_null_and_by_list_and_an_empty_list_finds_none(make_work):
    parent = make_work("parent")
    child = make_work("child", dependencies=(services.DependsOn(workload_id=parent.workload_id),))
    assert [each.child_id for each in statements.fetch(Dependency, parent_id=[parent.pk], met_at_ms=None)] == [child.pk]
    assert statements.fetch(Dependency, parent_id=[child.pk], met_at_ms=None) == []
    assert statements.fetch(Dependency, parent_id=[]) == []


def test_an_update_whose_guard_does_not_hold_writes_nothing(make_work):
    work = make_work()
    assert not statements.update(Workload, {"priority": 9}, id=work.pk, fencing_token=work.fencing_token + 1)
    assert not statements.update(Workload, {"priority": 9}, id=work.pk, worker_id="w1")
    assert Workload.objects.get(pk=work.pk).priority == 0
    assert statements.update(Workload, {"priority": 9}, id=work.pk, worker_id=None)
    assert Workload.objects.get(pk=work.pk).priority == 9


def test_inserted_rows_come_back_as_they_were_written_beyond_one_statement(make_work):
    work = make_work()
    events = [
        Event(
            workload_id=work.pk,
            namespace=NAMESPACE,
            sequence=number,
            event_type="workload.ready",
            from_state="CREATED",
            to_state="READY",
            actor="tests",
            at_ms=number,
            evidence={"n": number},
        )
        for number in range(2, 252)
    ]
    statements.insert(events)
    stored = Event.objects.filter(workload=work, sequence__gt=1).order_by("sequence")
    assert [each.evidence for each in stored] == [{"n": number} for number in range(2, 252)]


def test_a_row_that_must_be_there_and_is_not_is_an_error():
    with pytest.raises(ObjectDoesNotExist):
        statements.get(Workload, id=0)


def test_one_lifecycle_takes_a_bounded_number_of_statements(make_work, clock, django_assert_max_num_queries):
    make_work()
    asked = ClaimNext(namespace=NAMESPACE, worker_id="w1", principal="p", capabilities=frozenset({"identity"}))
    # Three transactions, which inside a test's own are six savepoint statements.
    with django_assert_max_num_queries(19 + 6, connection=connection):
        (claim,) = services.claim_next(asked, now_ms=clock.ms)
        services.start(claim.fence, now_ms=clock.ms)
        services.complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)


def test_a_new_row_is_the_row_django_makes_and_a_column_that_is_none_is_refused():
    given = {"workload_id": 7, "namespace": NAMESPACE, "number": 1, "claim_id": "c"}
    ours, theirs = statements.new(Attempt, **given), Attempt(**given)
    names = [field.attname for field in Attempt._meta.concrete_fields]
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]
    assert ours._state.adding and ours._state.db is None
    with pytest.raises(TypeError, match="Attempt has no column workload"):
        statements.new(Attempt, workload=7)


def test_rows_updated_come_back_as_they_are_now_and_none_where_a_guard_does_not_hold(make_work):
    work = make_work(timeouts=Timeouts(overall_ms=9_000))
    assert statements.updated(Workload, {"priority": 9}, id=work.pk, fencing_token=work.fencing_token + 1) == []
    (row,) = statements.updated(Workload, {"priority": 9}, id=work.pk, worker_id=None)
    stored = Workload.objects.get(pk=work.pk)
    assert (row.priority, row.timeouts, row.state) == (9, {"overall_ms": 9_000}, stored.state)


def test_a_success_reads_only_the_work_and_writes_it_its_history_its_attempt_and_its_result(make_work, run, clock):
    held = run(make_work())
    with CaptureQueriesContext(connection) as asked:
        services.complete(held.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    words = [
        each["sql"].split()[0]
        for each in asked
        if each["sql"].split()[0] not in ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    ]
    assert words == ["SELECT", "UPDATE", "INSERT", "SELECT", "UPDATE", "INSERT"]
