"""FeltDB's storage engine: durable JSON records, atomic transactions and an ordered feed of changes.

Standalone: nothing of Django is imported here. The public names are those listed below; errors are in `errors.py`.
"""

from feltdb_engine.compaction import Compaction
from feltdb_engine.errors import EngineError
from feltdb_engine.glimpse import Glimpse
from feltdb_engine.importing import BadRow, ImportReport
from feltdb_engine.model import (
    JSON,
    Actor,
    Changes,
    CollectionInfo,
    CommitResult,
    ContractInfo,
    ContractReport,
    Cursor,
    Health,
    IndexInfo,
    JSONObject,
    Mutation,
    Operation,
    Page,
    Pin,
    Precondition,
    Predicate,
    QueryResult,
    ReadBasis,
    Record,
)
from feltdb_engine.past import Past
from feltdb_engine.policy import Retention
from feltdb_engine.store import Store

__all__ = [
    "JSON",
    "Actor",
    "BadRow",
    "Changes",
    "CollectionInfo",
    "CommitResult",
    "Compaction",
    "ContractInfo",
    "ContractReport",
    "Cursor",
    "EngineError",
    "Glimpse",
    "Health",
    "ImportReport",
    "IndexInfo",
    "JSONObject",
    "Mutation",
    "Operation",
    "Page",
    "Past",
    "Pin",
    "Precondition",
    "Predicate",
    "QueryResult",
    "ReadBasis",
    "Record",
    "Retention",
    "Store",
]
