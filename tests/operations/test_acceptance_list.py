"""The reference's acceptance list for the server, each line with the tests that hold it here. A missing test fails.

A: admission, deadline, overload. B: health and readiness. F: reads and compaction. The table for people is in
`docs/reliability.md`; a test holds the two together.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.operations.api import views
from tests.workloads.test_acceptance import names_in

ROOT = Path(__file__).resolve().parents[2]

ADM, CAP, H, R = (
    "operations/test_admission",
    "operations/test_capacity",
    "operations/test_health",
    "operations/test_reads",
)
COM, OVER, MET = "operations/test_compacting", "operations/test_overload", "operations/test_metrics"

CASES: dict[str, tuple[str, ...]] = {
    "A1": (f"{CAP}::test_requests_in_flight_default_to_four_for_each_core_and_never_exceed_64",),
    "A2": (
        f"{CAP}::test_a_value_that_cannot_be_used_is_refused_naming_the_setting",
        f"{CAP}::test_neither_server_nor_command_starts_with_a_bad_value",
    ),
    "A3": (f"{CAP}::test_the_deadline_defaults_to_ten_seconds",),
    "A4": (
        f"{CAP}::test_a_value_that_cannot_be_used_is_refused_naming_the_setting",
        f"{CAP}::test_the_least_and_the_greatest_value_of_each_number_are_taken",
    ),
    "A5": (
        f"{ADM}::test_a_permit_is_back_when_the_request_has_ended_also_when_the_view_fails",
        f"{CAP}::test_the_bound_holds_for_the_instance_however_many_processes_there_are",
    ),
    "A6": (
        f"{ADM}::test_every_request_passes_here_inside_the_protocol_and_counting_layers",
        f"{ADM}::test_one_request_more_than_the_limit_is_refused_at_once_in_the_references_words",
    ),
    "A7": (f"{ADM}::test_one_request_more_than_the_limit_is_refused_at_once_in_the_references_words",),
    "A8": (
        f"{ADM}::test_a_read_that_ends_after_the_deadline_is_refused_in_the_references_words",
        f"{ADM}::test_a_write_that_landed_after_the_deadline_says_so",
    ),
    "A9": (f"{ADM}::test_one_request_more_than_the_limit_is_refused_at_once_in_the_references_words",),
    "A10": (
        f"{ADM}::test_one_request_more_than_the_limit_is_refused_at_once_in_the_references_words",
        f"{MET}::test_counts_of_processes_add_up_and_a_restart_takes_the_files_of_the_one_that_ended",
    ),
    "A11": (f"{ADM}::test_overload_is_never_500_and_still_the_servers_side",),
    "A12": (f"{OVER}::test_overload_is_refused_and_leaves_nothing_behind",),
    "B1": (f"{H}::test_a_ready_instance_answers_200_with_label_format_and_time",),
    "B2": ("operations/test_acceptance_list::test_openapi_tells_liveness_from_readiness",),
    "B3": (
        f"{H}::test_readiness_reads_and_forces_a_write_that_no_reader_of_the_feed_sees",
        f"{H}::test_a_disk_that_hangs_is_a_stalled_store_and_is_probed_again_only_when_it_has_answered",
    ),
    "B4": (
        f"{H}::test_a_ready_instance_answers_200_with_label_format_and_time",
        f"{H}::test_a_store_that_is_not_nominal_makes_503_with_the_same_body",
    ),
    "B5": (f"{H}::test_a_storage_error_is_named_with_the_next_step",),
    "B6": (f"{H}::test_an_error_of_the_probe_itself_is_named",),
    "B7": (f"{H}::test_a_disk_that_hangs_is_a_stalled_store_and_is_probed_again_only_when_it_has_answered",),
    "B8": (
        f"{H}::test_a_recovered_store_is_degraded_and_serves",
        f"{H}::test_a_clock_behind_the_newest_write_is_told",
        f"{H}::test_membership_counts_a_worker_that_died_and_forgets_it_when_another_starts",
    ),
    "B9": (f"{H}::test_a_recovered_store_is_degraded_and_serves",),
    "B10": (
        f"{H}::test_a_recovered_store_is_degraded_and_serves",
        f"{H}::test_membership_counts_a_worker_that_died_and_forgets_it_when_another_starts",
        f"{H}::test_a_clock_behind_the_newest_write_is_told",
    ),
    "B11": (f"{H}::test_a_disk_that_hangs_is_a_stalled_store_and_is_probed_again_only_when_it_has_answered",),
    "B12": ("operations/test_acceptance_list::test_a_readiness_check_that_fails_says_so_in_the_references_words",),
    "B13": ("operations/test_acceptance_list::test_health_says_nothing_untrue_of_a_fabric",),
    "F1": (
        f"{R}::test_provenance_is_one_look_however_many_records_there_are",
        "state/test_questions::test_provenance_is_the_last_operation_by_key_and_outlives_the_record",
    ),
    "F2": (
        f"{R}::test_the_search_route_stops_at_its_limit",
        "state/test_questions::test_a_search_stops_at_its_limit_and_goes_on_from_its_cursor",
    ),
    "F3": (
        f"{R}::test_a_search_stops_at_its_limit_without_reading_on",
        f"{R}::test_a_search_without_a_match_reads_each_page_once_and_ends",
    ),
    "F4": (
        f"{COM}::test_a_tick_is_no_rewrite",
        f"{COM}::test_the_worker_compacts_when_something_is_due_and_not_before_its_time",
    ),
    "F5": (
        f"{COM}::test_what_went_is_counted_and_logged_at_debug",
        "workloads/test_worker::test_a_hanging_step_holds_up_no_other_and_no_work",
        "workloads/test_worker::test_a_failing_step_ends_neither_the_others_nor_the_work",
    ),
}
LINES = [*(f"A{n}" for n in range(1, 13)), *(f"B{n}" for n in range(1, 14)), *(f"F{n}" for n in range(1, 6))]


def test_every_line_is_in_the_table_and_no_other() -> None:
    assert list(CASES) == LINES


@pytest.mark.parametrize("line", LINES)
def test_each_line_is_held_by_tests_that_are_there_and_named_for_people(line: str) -> None:
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    told = next((row for row in page.splitlines() if row.startswith(f"| {line} |")), "")
    for case in CASES[line]:
        module, name = case.split("::")
        assert name in names_in(module), f"{module} has no {name}"
        assert f"`{name}`" in told, f"docs/reliability.md does not name {name} for {line}"


def test_openapi_tells_liveness_from_readiness() -> None:
    paths = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))["paths"]
    alive, ready = paths["/v1/health"]["get"], paths["/v1/health/ready"]["get"]
    assert alive["description"].startswith("Process liveness") and ready["description"].startswith("Readiness")
    assert {"200", "503"} <= set(ready["responses"]) and "Readiness" not in json.dumps(alive["responses"])


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/ready", "/health/ready"])
def test_a_readiness_check_that_fails_says_so_in_the_references_words(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(views, "observe", broken)
    answer = Client().get(path)
    assert answer.status_code == 503 and "readiness check temporarily unavailable" in answer.content.decode().lower()
    assert "the readiness check failed" in caplog.text, "and the log has the reason"


@pytest.mark.django_db
def test_health_says_nothing_untrue_of_a_fabric() -> None:
    told = Client().get("/health").json()
    assert "fabric" not in told and "runtime" not in told
    assert {"status", "version", "storage", "writes", "membership", "clock"} <= set(told)
