"""Why a trigger did, or did not, fire for a change: the decision taken apart, and its outcome. Changes nothing."""

from typing import Any

from apps.state import stores
from apps.triggers.account import account_of
from apps.triggers.changing import State
from apps.triggers.contract import Change, Decision, Reason, Terms, change_of, decide, input_digest
from apps.triggers.definition import of_trigger
from apps.triggers.evaluation.batches import made_by
from apps.triggers.evaluation.compiled import compile_trigger, idempotency_key, source_change_id
from apps.triggers.evaluation.previous import PreviousRecords
from apps.triggers.models import SKIPPED, Trigger, TriggerQuarantine, TriggerRevision
from apps.triggers.predicate import ABSENT, parse
from apps.triggers.services import changes
from apps.triggers.services.showing import find
from apps.workloads.models import Request
from feltdb_engine.model import Operation

_WORDS = {
    Reason.TRIGGER_DISABLED: "the trigger is not active",
    Reason.COLLECTION_MISMATCH: "the trigger watches another collection",
    Reason.CHANGE_KIND_MISMATCH: "the trigger does not watch changes of this kind",
    Reason.CHANGE_VALUE_ABSENT: "the change carries no record",
    Reason.PREDICATE_FIELD_ABSENT: "a field that the predicate asks for is not there",
    Reason.PREDICATE_VALUE_MISMATCH: "the predicate does not hold",
    Reason.CHANGE_PREVIOUS_ABSENT: "it hangs on the record before this change, which history has lost",
    Reason.MATCHED: "the change matches",
}


def explain(namespace: str, trigger_id: str, change_id: str) -> dict[str, Any]:
    """Return why the trigger fired for a change, or why not: each check, each clause with its value, what became of it.

    The decision is that of the definition as it stands now; where an earlier one decided, `outcome` says so.
    Raises TRIGGER_NOT_FOUND, NOT_FOUND, FEED_COMPACTED, TRIGGER_STATE_REPLAY_FAILED.
    """
    trigger = find(namespace, trigger_id)
    store = stores.store(namespace)
    operation = changes.read(store, changes.named(change_id, store))
    definition = of_trigger(trigger)
    kind = operation.kind if operation.kind in definition.change_kinds else definition.change_kinds[0]
    terms = compile_trigger(trigger).terms[kind]
    previous = PreviousRecords(store).of(operation) if terms.reads_previous and operation.kind == "update" else ABSENT
    change = change_of(operation, previous)
    decision = decide(change, terms)
    return {
        "trigger_id": trigger_id,
        "revision": trigger.revision,
        "change": {
            "source_change_id": source_change_id(operation),
            "record_key": operation.key,
            "change_kind": operation.kind,
            "transaction_id": operation.transaction_id,
            "at_ms": operation.at_ms,
        },
        "matched": decision.matched,
        "reason": decision.reason.value,
        "checks": _checks(trigger, operation, decision),
        "predicate": _account(terms, change),
        "input_digest": input_digest(change, terms),
        "evaluated": _evaluated(trigger, operation),
        "outcome": _outcome(trigger, operation, change, decision),
    }


def _checks(trigger: Trigger, operation: Operation, decision: Decision) -> list[dict[str, Any]]:
    """Return each check with what the trigger wants and what the change is, also those after the first that fails."""
    kinds = trigger.change_kinds
    return [
        {"check": "state", "passes": trigger.state == State.ACTIVE, "wanted": "active", "found": trigger.state},
        {
            "check": "collection",
            "passes": operation.collection == trigger.source_collection,
            "wanted": trigger.source_collection,
            "found": operation.collection,
        },
        {
            "check": "change_kind",
            "passes": operation.kind in kinds,
            "wanted": ", ".join(kinds),
            "found": operation.kind,
        },
    ]


def _account(terms: Terms, change: Change) -> dict[str, Any] | None:
    if terms.predicate is None or change.value is ABSENT:
        return None
    document = terms.predicate.document
    return account_of(document, record=change.value, before=change.before, after=change.after)


def _evaluated(trigger: Trigger, operation: Operation) -> bool:
    return operation.sequence <= trigger.cursor.sequence


def _outcome(trigger: Trigger, operation: Operation, change: Change, decision: Decision) -> dict[str, Any]:
    """Return what became of the change: `kind`, for people `because`, and the id of its work or the refusal's code."""
    made = _work(trigger, operation)
    if made is not None:
        return made
    aside = TriggerQuarantine.objects.filter(
        trigger=trigger, instance_id=operation.instance_id, sequence=operation.sequence, replay=0
    ).first()
    if aside is not None:
        kind = "skipped" if aside.code == SKIPPED else "quarantined" if aside.resolved_at_ms is None else "resolved"
        return {"kind": kind, "code": aside.code, "because": aside.resolution or aside.message}
    if not decision.matched and decision.reason is not Reason.TRIGGER_DISABLED:
        return {"kind": "no_match", "because": _WORDS[decision.reason]}
    if not _evaluated(trigger, operation):
        if trigger.state == State.ACTIVE:
            return {"kind": "waiting", "because": "the trigger has not come to this change yet"}
        why = f": {trigger.reason}" if trigger.reason else ""
        return {"kind": "held_up", "code": trigger.reason_code, "because": f"the trigger is {trigger.state}{why}"}
    return {"kind": "passed_by", "because": _why_passed_by(trigger, operation, change)}


def _work(trigger: Trigger, operation: Operation) -> dict[str, Any] | None:
    """Return the work the change made, under its plain key or under the one by content; else whose work is there."""
    keys = [idempotency_key(trigger.trigger_id, operation, by_content=by_content) for by_content in (False, True)]
    rows = Request.objects.filter(
        namespace=trigger.namespace,
        application_id=trigger.application_id,
        requester_kind=trigger.requested_by_kind,
        requester_id=trigger.requested_by_id,
        idempotency_key__in=keys,
    )
    foreign = None
    for workload_id, given in rows.values_list("workload__workload_id", "input"):
        if made_by(given) == operation.content_hash:
            return {"kind": "work", "workload_id": workload_id, "because": "the change made work"}
        foreign = workload_id
    if foreign is None:
        return None
    because = f"{foreign} was made under this change's key by another change, which the store lost"
    return {"kind": "foreign_work", "workload_id": foreign, "because": because}


def _why_passed_by(trigger: Trigger, operation: Operation, change: Change) -> str:
    """Say what was different when a change that matches now was evaluated, as far as the revisions tell."""
    then = TriggerRevision.objects.filter(trigger=trigger, at_ms__lte=operation.at_ms).order_by("-revision").first()
    if then is None:
        return "the trigger was defined after this change and did not start before it"
    if then.definition["state"] in (State.DISABLED, State.ARCHIVED):
        return f"the trigger was {then.definition['state']} when the change was made (revision {then.revision})"
    given = then.definition["change_kind"]
    kinds = [given] if isinstance(given, str) else given
    predicate = then.definition["predicate"]
    terms = Terms(
        change_kind=change.change_kind if change.change_kind in kinds else "",
        enabled=True,
        source_collection=then.definition["source_collection"],
        predicate=None if predicate is None else parse(predicate),
    )
    earlier = decide(change, terms)
    if not earlier.matched:
        return f"the definition of that time, revision {then.revision}, did not match: {_WORDS[earlier.reason]}"
    return "the trigger's place was moved past this change; see its revisions"
