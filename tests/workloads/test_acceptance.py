"""The reference's acceptance list for work, each id with the tests that hold it here. A missing id or test fails.

Where a correction of the reference changes what an id means, the row says how. Ids of the grants (G1 to G7) stand with
the grants, those of the triggers with the triggers.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

L, A, C, R = "workloads/test_lifecycle", "workloads/test_admission", "workloads/test_claiming", "workloads/test_races"
AP, REG, M = "workloads/test_approving", "workloads/test_registry", "workloads/test_models"
NEVER_RELEASED = "corrected: no rows without a version and no side file of work were ever released; nothing to upgrade"

CASES: dict[str, tuple[str, ...]] = {
    # Admission and idempotency
    "W1": (
        f"{A}::test_idempotency_keys_are_bound_to_their_requester_and_request",
        f"{A}::test_an_unbound_authorization_snapshot_is_refused_before_any_replay",
    ),
    "W2": (f"{A}::test_idempotency_scopes_cannot_be_made_to_coincide",),
    "W3": (
        f"{A}::test_a_replay_matches_only_an_equivalent_request_and_names_every_conflicting_field",
        f"{A}::test_what_says_the_same_is_the_same_request",
        f"{A}::test_differing_dependencies_are_named_and_their_order_does_not_matter",
    ),
    "W4": (f"{R}::test_concurrent_admissions_by_competing_writers_converge_or_conflict",),
    "W5": (f"{R}::test_concurrent_admissions_by_competing_writers_converge_or_conflict",),
    "W6": (f"{R}::test_concurrent_conflicting_admissions_admit_one_and_refuse_the_others",),
    "W7": (f"{L}::test_idempotent_create_and_legal_lifecycle",),
    # Lease, fence, recovery, budget
    "W8": (f"{L}::test_stale_fence_and_lease_recovery",),
    "W9": (f"{L}::test_lease_recovery_records_the_lost_worker_and_is_bounded_by_the_attempt_budget",),
    "W10": (f"{R}::test_concurrent_recovery_commits_one_transition_and_never_exceeds_the_budget",),
    "W11": (f"{R}::test_concurrent_recovery_commits_one_transition_and_never_exceeds_the_budget",),
    "W12": (f"{L}::test_a_policy_that_does_not_retry_worker_failure_dead_letters_a_lost_attempt",),
    "W13": (f"{C}::test_claiming_exhausted_ready_work_dead_letters_it_instead",),
    "W14": (
        "corrected: an operator's retry gives a fresh budget of attempts, not one more; at most MAX_OPERATOR_RETRIES",
        f"{L}::test_operator_retry_gives_a_fresh_budget_is_recorded_and_is_bounded",
    ),
    "W15": (
        f"{L}::test_stale_fence_and_lease_recovery",
        "workloads/test_worker_process::test_a_killed_worker_costs_an_attempt_and_any_other_takes_over",
    ),
    "W16": (f"{L}::test_stale_fence_and_lease_recovery",),
    "W17": (
        "workloads/test_checkpointing::"
        "test_a_resumed_attempt_reads_the_input_and_the_lost_attempts_checkpoints_through_its_fence",
    ),
    # Writers, storage, migration
    "W18": (
        "corrected: whoever lost a race decides anew on what is there, instead of answering CONFLICT at once",
        f"{R}::test_multiple_workers_claim_work_once",
    ),
    "W19": (f"{R}::test_another_writers_commits_are_visible_and_acted_on_without_restart",),
    "W20": ("workloads/test_weaknesses::test_what_is_kept_of_work_names_who_asked_under_what_and_what_it_wrote",),
    "W21": (
        "corrected: there are no indexes beside the rows; the database's own constraints are them",
        f"{M}::test_an_idempotency_scope_makes_one_workload",
        f"{M}::test_a_result_id_is_unique_in_its_namespace_and_a_workload_has_one_result",
    ),
    "W22": (NEVER_RELEASED,),
    "W23": (NEVER_RELEASED,),
    # Time
    "W24": (f"{C}::test_scheduled_work_is_not_claimable_before_not_before",),
    "W25": (f"{C}::test_scheduled_work_is_not_claimable_before_not_before",),
    "W26": (f"{C}::test_scheduled_work_is_not_claimable_before_not_before",),
    "W27": (
        "workloads/test_worker::test_once_leaves_what_is_not_yet_eligible_and_what_nobody_here_can_run",
        f"{C}::test_scheduled_work_is_not_claimable_before_not_before",
    ),
    "W28": (f"{C}::test_immediate_work_behavior_is_unchanged",),
    "W29": (f"{R}::test_multiple_workers_claim_work_once",),
    "W30": (f"{L}::test_retry_sets_next_eligibility_without_duplicate_execution",),
    "W31": (f"{L}::test_cancellation_before_not_before_prevents_execution",),
    "W32": (f"{C}::test_the_scheduler_skips_ineligible_work_rather_than_failing_on_it",),
    "W33": (
        "workloads/test_dependencies::test_a_child_is_claimed_only_when_every_parent_has_succeeded",
        f"{C}::test_the_next_work_is_only_of_its_own_namespace",
    ),
    "W34": (
        f"{C}::test_deadlines_are_enforced_from_committed_timestamps",
        f"{C}::test_each_deadline_ends_its_state_and_only_those_of_an_attempt_are_tried_again",
    ),
    "W35": (
        "corrected: no rows of contract version 1 exist; zero is refused as there",
        f"{A}::test_what_cannot_be_work_is_refused_with_its_place_and_leaves_the_key_free",
    ),
    # Reports
    "W36": (f"{L}::test_a_repeated_completion_replays_only_for_the_claim_and_output_that_produced_it",),
    "W37": (f"{L}::test_cancellation_race_and_duplicate_completion_are_deterministic",),
    "W38": (
        f"{L}::test_retry_dead_letter_and_secret_safety",
        "workloads/test_checkpointing::test_a_secret_is_refused_first_and_too_much_after_it_and_nothing_is_kept",
    ),
    "W39": (f"{L}::test_a_worker_reports_failure_from_claimed_fenced_and_by_policy",),
    "W40": (f"{L}::test_failure_policy_decides_retry_and_an_unknown_effect_is_decided_like_a_lost_worker",),
    "W41": (f"{R}::test_failure_racing_completion_commits_exactly_one_outcome",),
    # Approval
    "W42": (f"{AP}::test_work_requiring_approval_is_never_claimable_before_an_authorized_decision_commits",),
    "W43": (f"{AP}::test_rejected_work_never_runs_and_a_rejection_is_final",),
    "W44": (f"{AP}::test_a_policy_narrows_approvers_and_excludes_the_requester",),
    "W45": (
        f"{AP}::test_a_policy_that_cannot_be_met_is_refused",
        f"{AP}::test_a_policy_is_compared_on_replay_and_required_for_a_decision",
    ),
    "W46": (f"{AP}::test_work_whose_approval_wait_expired_never_runs_on_a_late_approval",),
    "W47": (f"{AP}::test_approval_stands_across_attempts_and_cancellation_ends_the_wait",),
    "W48": (f"{R}::test_concurrent_approval_and_claim_never_claim_unapproved_work",),
    # Worker identity and the mesh
    "G8": ("keys/test_principal::test_only_a_worker_principal_ever_satisfies_a_worker_check",),
    "G9": ("keys/test_principal::test_a_worker_is_bound_to_its_own_identity",),
    "G10": ("keys/test_principal::test_a_worker_without_identity_is_its_key_id_and_never_a_wildcard",),
    "M1": (f"{REG}::test_registration_intersects_capabilities_and_lifecycle_is_strict",),
    "M2": (f"{REG}::test_releasing_a_claim_twice_frees_capacity_once",),
    "M3": (f"{REG}::test_a_claim_recovered_by_another_is_released_and_not_its_own_any_more",),
    "M4": (f"{REG}::test_a_claim_recovered_by_another_is_released_and_not_its_own_any_more",),
    "M5": (f"{REG}::test_placement_claim_fencing_failure_and_recovery",),
}

NOT_COVERED_THERE: dict[str, tuple[str, ...]] = {
    "dependency failure": (
        "workloads/test_dependencies::"
        "test_a_child_whose_parent_ended_otherwise_follows_its_policy_and_so_do_its_own_children",
    ),
    "priority order": (f"{C}::test_the_next_work_is_that_of_highest_priority_then_longest_eligible_then_oldest",),
    "result id across writers": (f"{R}::test_two_workloads_racing_for_one_result_id_get_it_once",),
    "approval + not_before replay": (f"{AP}::test_a_policy_is_compared_on_replay_and_required_for_a_decision",),
    "retention gap": (
        "triggers/test_retention::test_the_store_keeps_what_the_hindmost_trigger_has_yet_to_see",
        "triggers/test_evaluation::test_history_that_is_gone_blocks_the_trigger_that_needed_it_and_no_other",
    ),
    "poison record": ("triggers/test_evaluation::test_a_poisoned_change_is_put_aside_and_hinders_nothing",),
    "self-feeding trigger": ("triggers/test_evaluation::test_a_trigger_is_not_fed_by_its_own_work",),
    "trigger order across collections in one transaction": (
        "triggers/test_evaluation::test_every_operation_of_a_transaction_is_a_change_of_its_own",
    ),
    "delete triggers": (
        "triggers/test_evaluation::test_a_delete_is_matched_on_the_record_it_removed_and_hands_it_over",
    ),
    "update triggers": ("triggers/test_evaluation::test_each_kind_of_change_reaches_the_triggers_that_watch_it",),
    "kill -9 between creation and cursor": (
        "triggers/test_crashes::test_a_crash_at_any_step_loses_nothing_and_doubles_nothing",
    ),
    "lease bounds": (f"{C}::test_a_lease_is_one_second_to_one_hour",),
    "cancel with a heartbeating worker": (
        f"{L}::test_a_cancellation_is_told_in_the_heartbeat_and_bounded_by_its_grace",
    ),
    "expired snapshot at execution": ("workloads/test_authority::test_authority_that_expires_ends_at_its_instant",),
    "mesh/workload atomicity": (f"{REG}::test_capacity_and_kinds_are_held_to_by_every_claim_and_batch",),
}

IDS = [*(f"W{n}" for n in range(1, 49)), "G8", "G9", "G10", *(f"M{n}" for n in range(1, 6))]


@cache
def names_in(module: str) -> frozenset[str]:
    """Return the names of a module's tests, read without running it."""
    tree = ast.parse((TESTS / f"{module}.py").read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def check(rows: tuple[str, ...]) -> None:
    assert rows
    for row in rows:
        if row.startswith("corrected: "):
            continue
        module, name = row.split("::")
        assert name in names_in(module), f"{module} has no {name}"


def test_every_id_of_the_list_is_in_the_table_and_no_other():
    assert list(CASES) == IDS and len(NOT_COVERED_THERE) == 15


@pytest.mark.parametrize("case", IDS)
def test_each_id_is_held_by_tests_that_are_there(case):
    check(CASES[case])


@pytest.mark.parametrize("case", NOT_COVERED_THERE)
def test_each_case_that_the_reference_left_open_is_held_here(case):
    check(NOT_COVERED_THERE[case])
