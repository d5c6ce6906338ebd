"""A trigger made ready to be tested against changes, and the work one of its changes becomes. Pure.

Not here: where triggers stand (`standing.py`) and what is written (`batches.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.http import trace
from apps.triggers import contract, limits
from apps.triggers.contract import Change, Decision, Terms
from apps.triggers.definition import Definition, of_trigger
from apps.triggers.models import Trigger
from apps.triggers.predicate import parse
from apps.workloads.commands import BY_CHANGE, CreateWorkload
from feltdb_engine.model import Operation


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledTrigger:
    """One revision of a trigger, ready to test. `terms` holds, per watched kind, the contract's part of it."""

    pk: int
    namespace: str
    revision: int
    grant_id: str
    definition: Definition
    terms: Mapping[str, Terms]

    @property
    def trigger_id(self) -> str:
        """The id people gave it."""
        return self.definition.trigger_id

    @property
    def collection(self) -> str:
        """The collection it watches."""
        return self.definition.source_collection

    def decide(self, change: Change) -> Decision:
        """Decide a change of a watched kind, by the contract."""
        return contract.decide(change, self.terms[change.change_kind])


def compile_trigger(trigger: Trigger) -> CompiledTrigger:
    """Make a stored trigger ready."""
    return compile_definition(
        of_trigger(trigger),
        pk=trigger.pk,
        namespace=trigger.namespace,
        revision=trigger.revision,
        grant_id=trigger.grant_id,
    )


def compile_definition(
    definition: Definition, *, pk: int, namespace: str, revision: int, grant_id: str
) -> CompiledTrigger:
    """Make a definition ready. It is tested as enabled: who is not is never asked."""
    predicate = None if definition.predicate is None else parse(definition.predicate)
    return CompiledTrigger(
        pk=pk,
        namespace=namespace,
        revision=revision,
        grant_id=grant_id,
        definition=definition,
        terms={
            kind: Terms(
                change_kind=kind,
                enabled=True,
                source_collection=definition.source_collection,
                predicate=predicate,
            )
            for kind in definition.change_kinds
        },
    )


def source_change_id(operation: Operation) -> str:
    """Return the change's name: timeline and sequence."""
    return f"{operation.instance_id}:{operation.sequence}"


def idempotency_key(trigger_id: str, operation: Operation, *, replay: int = 0, by_content: bool = False) -> str:
    """Return the key under which this change makes this trigger's work, once; once more for each replay.

    `by_content` is for a change whose number a lost change had, which made work under the plain key.
    """
    key = f"state-trigger:{trigger_id}:{source_change_id(operation)}"
    if by_content:
        key += f":{operation.content_hash[:16]}"
    return f"{key}:r{replay}" if replay else key


def work_for(
    compiled: CompiledTrigger,
    operation: Operation,
    change: Change,
    *,
    depth: int,
    replay: int = 0,
    by_content: bool = False,
) -> CreateWorkload:
    """Return the work that a matching change becomes. `depth` is 1 for a change that no work made."""
    definition = compiled.definition
    not_before_at_ms = definition.not_before_at_ms
    if definition.delay_ms is not None:
        not_before_at_ms = operation.at_ms + definition.delay_ms
    return CreateWorkload(
        namespace=compiled.namespace,
        application_id=definition.application_id,
        environment=definition.environment,
        definition_id=definition.target_capability,
        definition_revision=definition.definition_revision,
        trigger=f"{BY_CHANGE}{definition.trigger_id}",
        input=_input(compiled, operation, change, depth, replay),
        requested_by=definition.requested_by,
        authorization_snapshot=definition.authorization_snapshot,
        grant_id=compiled.grant_id,
        capability_snapshot=frozenset(definition.capability_snapshot or (definition.target_capability,)),
        connection_scopes=frozenset(definition.connection_scopes),
        priority=definition.priority,
        idempotency_key=idempotency_key(definition.trigger_id, operation, replay=replay, by_content=by_content),
        retry_policy=definition.retry_policy,
        timeouts=definition.timeouts,
        not_before_at_ms=not_before_at_ms,
        traceparent=trace.kept(operation.actor.traceparent),
    )


def _input(compiled: CompiledTrigger, operation: Operation, change: Change, depth: int, replay: int) -> dict[str, Any]:
    terms = compiled.terms[operation.kind]
    key = operation.key
    return {
        "provenance": {
            **({"replay": replay} if replay else {}),
            "trigger_id": compiled.trigger_id,
            "trigger_revision": compiled.revision,
            "source_change_id": source_change_id(operation),
            "source_collection": operation.collection,
            "source_key": key,
            "change_kind": operation.kind,
            "depth": depth,
            **({"traceparent": operation.actor.traceparent} if operation.actor.traceparent else {}),
            "contract": {
                "id": contract.CONTRACT_ID,
                "version": contract.version_of(terms),
                "runtime": contract.RUNTIME,
                "input_digest": contract.input_digest(change, terms),
            },
        },
        "source": {
            "origin": operation.instance_id,
            "sequence": operation.sequence,
            "key": key,
            "collection": operation.collection,
            "content_hash": operation.content_hash,
        },
        "record": operation.value,
    }


def refusal_of_depth(compiled: CompiledTrigger, operation: Operation, depth: int) -> str | None:
    """Say why this change may not make more work, or None.

    A trigger is not fed by its own work unless it has a depth limit; and no chain of work goes beyond the limit.
    """
    limit = compiled.definition.depth_limit
    if limit is None and operation.actor.trigger_id == compiled.trigger_id:
        return "the change was made by this trigger's own work, and the trigger has no depth_limit"
    bound = limits.MAX_DEPTH if limit is None else limit
    if depth > bound:
        return f"the change lies {depth} deep in a chain of work made by changes; the limit is {bound}"
    return None
