"""State triggers at rest. What a trigger says is one wide row; where it stands is a narrow one beside it.

    Trigger            what to watch, what to run, whether it is evaluated; changed only by people
    TriggerCursor      how far the feed has been evaluated for it; moved by every batch
    TriggerRevision    every change of a trigger: who, when, what became of which field
    TriggerQuarantine  a change that matched and could not become work, or that an operator told it to pass over
    TriggerReplay      an order to evaluate old changes once more
    NamespacePosition  the farthest change of a namespace that the control plane has seen, and its hash
    NamespaceMark      what it had seen at earlier moments, ever fewer the older
    EvaluatorLease     which evaluator works a namespace just now: saves work, guards nothing

Instants are milliseconds since 1970 by the server's clock. Who moves rows: `services/` and `evaluation/`.
"""

from apps.triggers.models.aside import SKIPPED, TriggerQuarantine, TriggerReplay
from apps.triggers.models.definitions import SEQUENCE_NONE, SUBJECT_KINDS, Trigger, TriggerCursor, TriggerRevision
from apps.triggers.models.namespaces import EvaluatorLease, NamespaceMark, NamespacePosition

__all__ = [
    "SEQUENCE_NONE",
    "SKIPPED",
    "SUBJECT_KINDS",
    "EvaluatorLease",
    "NamespaceMark",
    "NamespacePosition",
    "Trigger",
    "TriggerCursor",
    "TriggerQuarantine",
    "TriggerReplay",
    "TriggerRevision",
]
