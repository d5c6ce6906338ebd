"""What people and programs read of work."""

import pytest

from apps.workloads.errors import WorkloadError
from apps.workloads.services import reading
from tests.workloads.conftest import NAMESPACE

pytestmark = pytest.mark.django_db


def test_counts_name_every_state_work_can_rest_in(make_work, run):
    make_work("a"), run(make_work("b"))
    counts = reading.counts(NAMESPACE)
    assert counts["READY"] == 1 and counts["RUNNING"] == 1 and counts["SUCCEEDED"] == 0 and len(counts) == 10


def test_a_page_says_where_to_go_on_only_where_there_is_more(make_work):
    made = [make_work(f"k{number}") for number in range(4)]
    rows, after = reading.page(NAMESPACE, limit=4)
    assert [row.pk for row in rows] == [work.pk for work in made[::-1]] and after is None
    rows, after = reading.page(NAMESPACE, limit=3)
    assert after == rows[-1].pk
    assert [row.pk for row in reading.page(NAMESPACE, after=after, limit=3)[0]] == [made[0].pk]


def test_what_is_not_there_is_not_found(db):
    for read in (reading.get, reading.history, reading.result):
        with pytest.raises(WorkloadError) as refused:
            read(NAMESPACE, "workload_none")
        assert refused.value.code == "WORKLOAD_NOT_FOUND"
