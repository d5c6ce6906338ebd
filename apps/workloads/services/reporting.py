"""How a worker ends a claim: success, failure, cancellation confirmed. The same report twice is the same answer."""

from collections.abc import Sequence

from django.db import IntegrityError, transaction

from apps.http import canonical_json
from apps.workloads import deadlines, errors, limits, statements
from apps.workloads.commands import Completion, Failure, Fence, Report, RetryPolicy
from apps.workloads.fields import Text
from apps.workloads.models import Attempt, Result, Workload
from apps.workloads.services import validation
from apps.workloads.services.fencing import (
    attempt_id,
    check_fence,
    decide,
    end_attempt,
    held,
    in_time,
    require_fence,
)
from apps.workloads.services.moving import Lost, Move, commit_together, deciding_anew, load, policy_of
from apps.workloads.states import STARTED, AttemptStatus, Effect, State

RETRY_ACTOR = "retry"


@deciding_anew
def complete(fence: Fence, completion: Completion, *, now_ms: int) -> tuple[Result, bool]:
    """Record the success. Returns the stored result and whether this report stored it.

    Refused in this order: WORKLOAD_SECRET_REJECTED, WORKLOAD_INVALID, WORKLOAD_RESULT_CONFLICT or _DUPLICATE (the
    result id is known with another report, or belongs to other work), deadline, fence, WORKLOAD_TRANSITION_DENIED.
    """
    raw, output_hash = _checked(completion)
    row = load(fence.namespace, fence.workload_id)
    if not _holds(row, fence, now_ms):
        stored = _replayed(row, fence, completion, output_hash)
        if stored is not None:
            return stored, False
        require_fence(in_time(row, now_ms), fence, now_ms, word="complete")
    move = Move(row, now_ms).step("complete", fence.worker_id)
    ended = {"status": AttemptStatus.SUCCEEDED, "ended_at_ms": now_ms, "result_hash": output_hash}
    try:
        with transaction.atomic():
            move.commit_or_lose()
            (attempt,) = statements.updated(Attempt, ended, workload_id=row.pk, number=row.fencing_token)
            result = _result(move, attempt, completion, raw, output_hash)
            statements.insert([result])
    except IntegrityError as error:
        if _replayed(row, fence, completion, output_hash) is None:  # raises where other work has the result id
            raise
        raise Lost from error
    result.output = completion.output
    return result, True


def complete_many(reports: Sequence[Report], *, now_ms: int) -> list[Result | errors.WorkloadError]:
    """Record several successes in one transaction. Returns, for each, its stored result or why it was refused.

    Each is judged on its own, as `complete` does: what is not plainly in order is left to that.
    """
    answers: dict[int, Result | errors.WorkloadError] = {}
    plain = _plain(reports, now_ms)
    try:
        with transaction.atomic():
            written = {id(move) for move in commit_together([move for _, move, _ in plain])}
            together = [(place, result) for place, move, result in plain if id(move) in written]
            for _, result in together:
                changes = {"status": AttemptStatus.SUCCEEDED, "ended_at_ms": now_ms, "result_hash": result.output_hash}
                statements.update(Attempt, changes, id=result.attempt_id)
            statements.insert([result for _, result in together])
    except IntegrityError:
        together = []  # one of them took a result id that another report has: nothing was written
    for place, result in together:
        result.output = reports[place].completion.output
        answers[place] = result
    for place, report in enumerate(reports):
        if place in answers:
            continue
        try:
            answers[place] = complete(report.fence, report.completion, now_ms=now_ms)[0]
        except errors.WorkloadError as error:
            answers[place] = error
    return [answers[place] for place in range(len(reports))]


def _plain(reports: Sequence[Report], now_ms: int) -> list[tuple[int, Move, Result]]:
    """Return the reports that are plainly in order: place, move and result. Reads what all of them need at once."""
    names = {report.fence.workload_id for report in reports}
    rows = {row.workload_id: row for row in Workload.objects.filter(workload_id__in=names)}
    attempts = {
        (attempt.workload_id, attempt.number): attempt
        for attempt in Attempt.objects.filter(
            workload_id__in=[row.pk for row in rows.values() if row.state in STARTED], ended_at_ms__isnull=True
        )
    }
    known = set(
        Result.objects.filter(result_id__in=[report.completion.result_id for report in reports]).values_list(
            "namespace", "result_id"
        )
    )
    found = []
    for place, report in enumerate(reports):
        row = rows.get(report.fence.workload_id)
        if row is None or row.namespace != report.fence.namespace or deadlines.passed(row, now_ms) is not None:
            continue
        attempt = attempts.get((row.pk, row.fencing_token))
        if attempt is None or (row.namespace, report.completion.result_id) in known:
            continue
        try:
            raw, output_hash = _checked(report.completion)
            check_fence(row, report.fence, now_ms)
            move = Move(row, now_ms).step("complete", report.fence.worker_id)
        except errors.WorkloadError:
            continue
        known.add((row.namespace, report.completion.result_id))
        found.append((place, move, _result(move, attempt, report.completion, raw, output_hash)))
    return found


def _checked(completion: Completion) -> tuple[bytes, str]:
    """Return the output's bytes and hash. Raises WORKLOAD_SECRET_REJECTED and WORKLOAD_INVALID."""
    raw, kept = validation.kept_json(completion.output, "/output", limits.MAX_OUTPUT_BYTES)
    validation.name(completion.result_id, "/result_id", limits.MAX_TEXT_CHARS)
    if len(completion.artifacts) > limits.MAX_ARTIFACTS:
        raise errors.invalid(f"at most {limits.MAX_ARTIFACTS} artifacts", pointer="/artifacts")
    for artifact in completion.artifacts:
        validation.name(artifact, "/artifacts", limits.MAX_TEXT_CHARS)
    if not 0 <= completion.schema_version < 2**63:
        raise errors.invalid("must be a number from 0", pointer="/schema_version")
    return raw, canonical_json.sha256_hex(kept)


def _result(move: Move, attempt: Attempt, completion: Completion, raw: bytes, output_hash: str) -> Result:
    made = statements.new(
        Result,
        workload_id=move.row.pk,
        attempt_id=attempt.pk,
        namespace=move.row.namespace,
        result_id=completion.result_id,
        produced_by=attempt.worker_id,
        created_at_ms=move.now_ms,
        schema_version=completion.schema_version,
        artifacts=list(completion.artifacts),
        output_hash=output_hash,
        output=Text(raw.decode()),
    )
    made.workload, made.attempt = move.after, attempt
    return made


def _holds(row: Workload, fence: Fence, now_ms: int) -> bool:
    """Tell whether this is a report on work that runs under this fence, in time: it has no result yet."""
    if row.state not in STARTED or deadlines.passed(row, now_ms) is not None:
        return False
    try:
        check_fence(row, fence, now_ms)
    except errors.WorkloadError:
        return False
    return True


def _replayed(row: Workload, fence: Fence, completion: Completion, output_hash: str) -> Result | None:
    """Return the stored result this report repeats, or None when its id is new."""
    stored = statements.first(Result, namespace=fence.namespace, result_id=completion.result_id)
    if stored is None:
        return None
    if stored.workload_id != row.pk:
        raise errors.result_duplicate(completion.result_id)
    attempt = stored.attempt
    known = (
        attempt.worker_id,
        attempt.claim_id,
        attempt.number,
        attempt.claimed_by,
        stored.output_hash,
        stored.artifacts,
        stored.schema_version,
    )
    told = (
        fence.worker_id,
        fence.claim_id,
        fence.fencing_token,
        fence.principal,
        output_hash,
        list(completion.artifacts),
        completion.schema_version,
    )
    if known != told:
        raise errors.result_conflict(completion.result_id)
    return stored


@deciding_anew
def fail(fence: Fence, failure: Failure, *, now_ms: int) -> Workload:
    """Record a failure and decide: tried again after a back-off, or a dead letter. Returns the work as it stands.

    `effect` unknown is judged like a lost worker, whatever the kind; not said by an attempt that never started it is
    none. The same report again changes nothing and answers how the work stands now.
    """
    error = failure.error[: limits.MAX_ERROR_CHARS]
    validation.refuse_secret_text(error, "/error")
    validation.name(failure.kind, "/kind", limits.MAX_NAME_CHARS)
    if failure.effect is not None and failure.effect not in list(Effect):
        raise errors.invalid("must be none or unknown", pointer="/effect")
    if not 0 <= (failure.retry_after_ms or 0) <= limits.MAX_RETRY_AFTER_MS:
        raise errors.invalid(f"must be 0 to {limits.MAX_RETRY_AFTER_MS}", pointer="/retry_after_ms")
    row = load(fence.namespace, fence.workload_id)
    if _already_reported(row, fence, failure, error):
        return row
    row = held(fence, now_ms, word="fail")
    policy = policy_of(row)
    effect = failure.effect or (Effect.NONE if row.state == State.CLAIMED else "")
    move = Move(row, now_ms).step(
        "fail", fence.worker_id, failure_kind=failure.kind, attempt_id=attempt_id(row), effect=effect or None
    )
    move.set(last_failure=f"{failure.kind}: {error}")
    decision = _decision(row, policy, failure.kind, effect)
    decide(move, decision, policy, actor=RETRY_ACTOR, least_delay_ms=failure.retry_after_ms or 0)
    with transaction.atomic():
        move.commit_or_lose()
        end_attempt(row, now_ms, AttemptStatus.FAILED, failure_kind=failure.kind, error=error, effect=effect)
    return move.after


def fail_many(reports: Sequence[tuple[Fence, Failure]], *, now_ms: int) -> list[Workload | errors.WorkloadError]:
    """Record several failures, each judged on its own. Returns, for each, the work as it stands or the refusal.

    A transaction each: failures are rare, and a refusal may itself have to be written (work found timed out).
    """
    answers: list[Workload | errors.WorkloadError] = []
    for fence, failure in reports:
        try:
            answers.append(fail(fence, failure, now_ms=now_ms))
        except errors.WorkloadError as error:
            answers.append(error)
    return answers


def _decision(row: Workload, policy: RetryPolicy, kind: str, effect: str) -> str:
    if effect == Effect.UNKNOWN:
        if "worker_failure" not in policy.retry_on:
            return "effect_unknown_not_retryable"
    elif kind not in policy.retry_on:
        return "failure_kind_not_retryable"
    return "retry" if row.budget_used < row.max_attempts else "attempt_budget_exhausted"


def _already_reported(row: Workload, fence: Fence, failure: Failure, error: str) -> bool:
    attempt = Attempt.objects.filter(
        workload_id=row.pk,
        number=fence.fencing_token,
        claim_id=fence.claim_id,
        worker_id=fence.worker_id,
        claimed_by=fence.principal,
        status=AttemptStatus.FAILED,
        failure_kind=failure.kind,
        error=error,
    ).first()
    return attempt is not None and failure.effect in (None, attempt.effect)


@deciding_anew
def confirm_cancel(fence: Fence, *, now_ms: int) -> Workload:
    """Say that the work was given up as asked."""
    row = load(fence.namespace, fence.workload_id)
    require_fence(row, fence, now_ms, word="confirm_cancel")
    move = Move(row, now_ms).step("confirm_cancellation", fence.worker_id)
    with transaction.atomic():
        move.commit_or_lose()
        end_attempt(row, now_ms, AttemptStatus.CANCELLED)
    return move.after
