"""Weaknesses of the reference: each row of its review, with the tests that show that it is not here.

A row without a test fails, and so does a test named by a row that its row does not name. Rows 7 to 11 are shown with
the triggers, 21 to 28 with the grants, 37 with the engine; here are those of the work.
"""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.keys.services import ensure_namespace
from apps.state import stores
from apps.workloads import limits, retention
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, ClaimNext
from apps.workloads.models import Checkpoint, Event, Workload
from apps.workloads.retention import DAY_MS
from apps.workloads.running import Running
from apps.workloads.services import checkpoint, claim, claim_next, heartbeat, start, sweep
from apps.workloads.worker import Worker, WorkerOptions
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE
from tests.workloads.test_acceptance import AP, REG, A, C, L, R, check, names_in

pytestmark = pytest.mark.django_db

W, T, G = "workloads/test_weaknesses", "triggers/test_weaknesses", "keys/grants/test_weaknesses"

TABLE: dict[int, tuple[str, ...]] = {
    1: (f"{W}::test_row_1_a_heartbeat_is_one_small_update_however_large_the_input",),
    2: (f"{W}::test_row_2_a_checkpoint_costs_the_same_whatever_went_before",),
    3: (f"{W}::test_rows_3_and_5_claims_and_sweeps_read_by_index_and_never_sort_or_scan_the_work",),
    4: (
        f"{W}::test_row_4_what_is_over_leaves_the_database",
        f"{W}::test_row_4_a_start_reads_nothing_of_the_work_that_is_over",
    ),
    5: (f"{W}::test_rows_3_and_5_claims_and_sweeps_read_by_index_and_never_sort_or_scan_the_work",),
    6: (f"{W}::test_row_6_the_promised_rate_is_measured_with_every_commit_forced",),
    7: (
        f"{T}::test_row_7_what_a_pass_writes_grows_neither_with_the_changes_nor_with_the_triggers",
        f"{T}::test_row_7_looking_at_changes_that_match_nothing_writes_nothing",
    ),
    8: (f"{T}::test_row_8_only_triggers_of_the_changes_collection_and_kind_are_asked",),
    9: (f"{T}::test_row_9_neither_a_poisoned_change_nor_a_redefinition_stops_a_trigger",),
    10: (
        f"{T}::test_row_10_history_that_is_gone_is_told_and_held_against_the_trigger_until_somebody_acts",
        "triggers/test_retention::test_the_store_keeps_what_the_hindmost_trigger_has_yet_to_see",
    ),
    11: (f"{T}::test_row_11_no_trigger_feeds_itself_and_none_watches_what_work_is_made_of",),
    12: ("workloads/test_authority::test_a_named_grant_is_verified_before_anything_is_stored",),
    13: (f"{W}::test_row_13_no_client_says_when_work_was_created",),
    14: (f"{C}::test_a_lease_is_one_second_to_one_hour",),
    15: (f"{L}::test_a_cancellation_is_told_in_the_heartbeat_and_bounded_by_its_grace",),
    16: (
        f"{C}::test_the_next_work_is_that_of_highest_priority_then_longest_eligible_then_oldest",
        "workloads/test_dependencies::test_a_dead_parent_holds_its_child_until_it_is_retried_and_succeeds",
    ),
    17: (f"{R}::test_two_workloads_racing_for_one_result_id_get_it_once",),
    18: (f"{AP}::test_a_policy_is_compared_on_replay_and_required_for_a_decision",),
    19: (
        "workloads/test_secret_patterns::test_a_secret_is_found_where_it_is",
        "workloads/test_secret_patterns::test_what_only_looks_alike_is_no_secret",
    ),
    20: (
        f"{L}::test_a_lost_lease_waits_its_back_off_too",
        f"{L}::test_the_back_off_is_exponential_capped_fully_jittered_and_repeatable",
    ),
    21: (
        f"{G}::test_row_21_a_grant_cannot_be_delegated_to_itself_and_a_circle_made_by_force_ends_in_a_refusal",
        f"{G}::test_row_21_a_circle_of_two_made_by_force_ends_in_a_refusal",
    ),
    22: (f"{G}::test_row_22_hex_that_is_none_is_invalid_and_the_next_check_works",),
    23: (
        f"{G}::test_row_23_delegation_never_writes_over_a_grant_whoever_it_belongs_to",
        f"{G}::test_row_23_a_child_is_always_active_and_of_this_version_whatever_is_asked",
    ),
    24: (
        f"{G}::test_row_24_the_future_another_status_and_another_version_are_refused_even_when_well_signed",
        f"{G}::test_row_24_the_future_begins_where_two_hosts_clocks_may_differ",
    ),
    25: (f"{G}::test_row_25_a_check_writes_nothing_anywhere",),
    26: (
        f"{G}::test_row_26_every_instance_makes_its_own_random_key_and_rotates_it",
        f"{G}::test_row_26_no_text_from_the_environment_is_stretched_into_a_key",
    ),
    27: (f"{G}::test_row_27_another_program_writes_the_same_bytes_from_the_documented_order",),
    28: (f"{G}::test_row_28_a_grant_with_every_constraint_is_usable_where_the_whole_context_is_known",),
    29: (f"{REG}::test_capacity_and_kinds_are_held_to_by_every_claim_and_batch",),
    30: (f"{REG}::test_releasing_a_claim_twice_frees_capacity_once",),
    31: (f"{REG}::test_a_worker_of_one_namespace_is_none_of_anothers",),
    32: (f"{W}::test_row_32_what_nothing_would_enforce_is_refused_and_not_ignored",),
    33: (
        f"{REG}::test_placement_claim_fencing_failure_and_recovery",
        f"{REG}::test_a_draining_worker_gets_nothing_finishes_and_is_offline",
    ),
    34: (
        "workloads/test_worker::test_a_failing_step_ends_neither_the_others_nor_the_work",
        "workloads/test_worker::test_a_program_may_run_longer_than_its_lease",
    ),
    36: ("workloads/test_cron::test_what_cannot_be_read_or_never_comes_is_refused",),
    37: ("engine/test_identity::test_a_copied_directory_goes_on_on_a_timeline_of_its_own",),
    38: (
        f"{L}::test_a_repeated_completion_replays_only_for_the_claim_and_output_that_produced_it",
        f"{A}::test_a_replay_answers_the_work_as_it_stands_also_when_it_is_over",
    ),
}
DOES_NOT_APPLY = {35: "a start imports nothing: there is no legacy file of work, and none was ever released"}
ROWS = range(1, 39)


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_tests_that_are_there(row):
    assert (row in TABLE) != (row in DOES_NOT_APPLY)
    check(TABLE.get(row, ()) or (f"corrected: {DOES_NOT_APPLY[row]}",))


def test_every_test_that_is_named_by_a_row_is_in_that_row():
    assert set(TABLE) | set(DOES_NOT_APPLY) == set(ROWS)
    found = 0
    for module in (W, T, G):
        for name in names_in(module):
            if numbers := re.match(r"test_rows?_(\d+)(?:_and_(\d+))?_", name):
                found += 1
                for row in filter(None, numbers.groups()):
                    assert f"{module}::{name}" in TABLE[int(row)]
    assert found > 20


def written(captured: CaptureQueriesContext) -> list[str]:
    """Return the statements that write, without their values' sizes."""
    return [query["sql"] for query in captured if query["sql"].split()[0] in ("INSERT", "UPDATE", "DELETE")]


def test_row_1_a_heartbeat_is_one_small_update_however_large_the_input(make_work, run, clock):
    claim_of = run(make_work(input="x" * (limits.MAX_INPUT_BYTES - 2)))
    with CaptureQueriesContext(
        connection,
    ) as captured:
        heartbeat(claim_of.fence, extend_ms=5_000, now_ms=clock.ms)
    statements = written(captured)
    assert len(statements) == 1 and statements[0].startswith('UPDATE "workloads_workload"')
    columns = re.findall(r'"(\w+)" = ', statements[0].partition(" WHERE ")[0])
    assert columns == ["heartbeat_at_ms", "lease_expires_at_ms", "due_at_ms"]
    assert sum(len(query["sql"]) for query in captured) < 10_000, "the input is not touched"
    assert Event.objects.count() == 3


def test_row_2_a_checkpoint_costs_the_same_whatever_went_before(make_work, run, clock):
    claim_of = run(make_work())

    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            checkpoint(claim_of.fence, {"state": "x" * 100}, now_ms=clock.ms)
        reads = [query["sql"] for query in captured if query["sql"].startswith("SELECT")]
        assert not any('"workloads_checkpoint"."state"' in sql for sql in reads), "no earlier one is read"
        return sum(len(query["sql"]) for query in captured)

    for _ in range(limits.MAX_CHECKPOINTS + 2):
        early = cost()
    for _ in range(20):
        late = cost()
    assert late < 1.2 * early
    assert Checkpoint.objects.count() == limits.MAX_CHECKPOINTS, "the newest are kept, the others are not"


def plan(captured: CaptureQueriesContext, table: str) -> str:
    """Return how SQLite would run the last captured SELECT on the table."""
    [*_, sql] = [query["sql"] for query in captured if query["sql"].startswith("SELECT") and table in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        return " / ".join(row[-1] for row in cursor.fetchall())


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_rows_3_and_5_claims_and_sweeps_read_by_index_and_never_sort_or_scan_the_work(make_work, clock):
    for number in range(3):
        make_work(f"k{number}")
    command = ClaimNext(
        namespace=NAMESPACE, worker_id="w", principal="worker:w", capabilities=frozenset({"identity"}), max=1
    )
    with CaptureQueriesContext(connection) as captured:
        claim_next(command, now_ms=clock.ms)
    head = plan(captured, 'FROM "workloads_workload"')
    assert "workload_claim_order" in head and "TEMP B-TREE" not in head and "SCAN" not in head, head
    with CaptureQueriesContext(connection) as captured:
        sweep(now_ms=clock.ms)
    due = plan(captured, 'FROM "workloads_workload"')
    assert "workload_due" in due and "TEMP B-TREE" not in due, due


def over(make_work, count: int) -> None:
    """Make work that ended, a month ago."""
    ids = [make_work(f"over-{number}").pk for number in range(count)]
    old = now_ms() - 30 * DAY_MS
    Workload.objects.filter(pk__in=ids).update(state="CANCELLED", due_at_ms=None, created_at_ms=old, updated_at_ms=old)


@pytest.mark.django_db(transaction=True)
def test_row_4_what_is_over_leaves_the_database(make_work, settings, data_dir):
    settings.WORK_RETENTION_DAYS = 1
    over(make_work, 30)
    open_ = make_work("open")
    assert Worker(WorkerOptions(concurrency=1), steps=[retention.step()]).run_once() == 1
    assert [row.workload_id for row in Workload.objects.all()] == [open_.workload_id]
    [month] = (retention.archive() / NAMESPACE).iterdir()
    assert len(month.read_text().splitlines()) == 30


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_row_4_a_start_reads_nothing_of_the_work_that_is_over(make_work, data_dir, monkeypatch):
    """All that a worker asks of the work when it starts is found by an index that ended work is not in."""
    over(make_work, 30)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert Worker(WorkerOptions(concurrency=1)).run_once() == 0
    asked = [
        query["sql"] for query in captured if query["sql"].startswith("SELECT") and "workloads_workload" in query["sql"]
    ]
    assert asked
    for sql in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plans = [row[-1] for row in cursor.fetchall()]
        assert not [plan for plan in plans if plan.startswith("SCAN workloads_workload")], (sql, plans)


def test_row_6_the_promised_rate_is_measured_with_every_commit_forced():
    """The rate itself is no test's: `make bench`. That a commit is forced to the disk is."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA synchronous")
            assert cursor.fetchone() == (2,), "FULL"
        else:
            cursor.execute("SHOW fsync")
            assert cursor.fetchone() == ("on",)
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)


def test_row_13_no_client_says_when_work_was_created(api):
    answer = api().post_json("/v1/workloads", {"definition_id": "identity", "idempotency_key": "k", "created_at_ms": 1})
    assert answer.status_code == 400 and not Workload.objects.exists()


@pytest.mark.parametrize("member", ["pool", "pool_id", "affinity", "profile", "labels"])
def test_row_32_what_nothing_would_enforce_is_refused_and_not_ignored(api, member):
    answer = api().post_json("/v1/workers/register", {"worker_id": "w", member: "gpu"})
    assert answer.status_code == 400 and member in answer.content.decode()
    answer = api().post_json("/v1/workloads", {"definition_id": "identity", "idempotency_key": "k", member: "gpu"})
    assert answer.status_code == 400 and not Workload.objects.exists()


def test_what_is_kept_of_work_names_who_asked_under_what_and_what_it_wrote(api, make_key):
    """W20: session, requester, grant, attempts and workers in the rows; work and attempt in every record it writes."""
    ensure_namespace(NAMESPACE)
    asked = {"definition_id": "identity", "idempotency_key": "k", "session_id": "session-7"}
    work = api(make_key(name="shop")).post_json("/v1/workloads", asked).json()
    command = ClaimById(namespace=NAMESPACE, workload_id=work["workload_id"], worker_id="w1", principal="worker:w1")
    held = claim(command, now_ms=now_ms())
    start(held.fence, now_ms=now_ms())
    Running(held, 30_000).commit("s", [Mutation(kind="put", collection="parcels", id="7", value={})])
    read = api().get(f"/v1/workloads/{work['workload_id']}").json()
    assert (read["session_id"], read["requested_by"]["kind"], read["trigger"]) == ("session-7", "service", "manual")
    assert read["grant_id"] and read["attempts"][0]["worker_id"] == "w1" and read["input_hash"]
    history = api().get(f"/v1/workloads/{work['workload_id']}/history").json()
    assert [event["actor"] for event in history["events"]] == ["admission", "w1", "w1"]
    operation = stores.store(NAMESPACE).changes(None).operations[-1]
    assert operation.transaction_id == f"work:{work['workload_id']}:s"
    assert operation.actor.workload_id == work["workload_id"]
    assert operation.actor.request_id == read["attempts"][0]["attempt_id"]
    stores.close_all()
