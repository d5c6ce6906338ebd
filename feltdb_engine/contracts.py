"""The contract in the view: what its frames change, and the rules it makes. `payload.py` has the layouts of the frames.

One JSON value under one key of the unnamed database (`view.CONTRACT_KEY`):

    {"revision": 3, "sequence": 120, "active": contract or null, "pending": null or {"id", "contract"}}

`revision` counts activations; `sequence` is the store's when the last one was. Which indexes there are follows from it.
"""

from typing import Any, NamedTuple

import orjson

from feltdb_engine import contract, indexes, view
from feltdb_engine.contract import Contract
from feltdb_engine.enforcing import Rules
from feltdb_engine.view import Transaction, View


class Pending(NamedTuple):
    """A contract that is being activated: what is written is held to it already."""

    id: str
    members: dict[str, Any]


class State(NamedTuple):
    """The contract of a store. `active` is None where there never was one."""

    revision: int
    sequence: int
    active: dict[str, Any] | None
    pending: Pending | None


def state(txn: Transaction) -> State:
    """What the view says."""
    data = txn.get(view.CONTRACT_KEY)
    if data is None:
        return State(0, 0, None, None)
    said = orjson.loads(data)
    pending = said["pending"]
    return State(
        said["revision"], said["sequence"], said["active"], pending and Pending(pending["id"], pending["contract"])
    )


def change(txn: Transaction, content: bytes, sequence: int) -> None:
    """Apply a contract frame."""
    said = orjson.loads(content)
    before = state(txn)
    after = before._replace(pending=None)
    if said["act"] == "propose":
        after = before._replace(pending=Pending(said["id"], said["contract"]))
    elif said["act"] == "activate" and before.pending is not None:
        after = State(before.revision + 1, sequence, before.pending.members, None)
    pending = after.pending and {"id": after.pending.id, "contract": after.pending.members}
    kept = {"revision": after.revision, "sequence": after.sequence, "active": after.active, "pending": pending}
    txn.put(view.CONTRACT_KEY, orjson.dumps(kept))
    indexes.keep_exact(txn, needed(after))


def needed(found: State) -> dict[tuple[str, str], tuple[str, ...]]:
    """The exact indexes a state needs: fields by collection and name. Of the log's own forms, without compiling."""
    wanted: dict[tuple[str, str], tuple[str, ...]] = {}
    for members in (found.active, found.pending and found.pending.members):
        for collection, part in (members or {"collections": {}})["collections"].items():
            for fields in part["unique"]:
                wanted[(collection, contract.Unique(tuple(fields)).index_name)] = tuple(fields)
            for one in part["references"]:
                wanted[(collection, contract.Reference(**one).index_name)] = (one["field"],)
    return wanted


def rules(target: View, txn: Transaction) -> Rules | None:
    """The rules in force, remembered as long as the view's words are the same. None where there is no contract."""
    data = txn.get(view.CONTRACT_KEY)
    if data is None:
        return None
    catalogue = txn.get(view.INDEXES_KEY) or b""
    known = target.known_rules
    if known is None or known[0] != data or known[1] != catalogue:
        compiled = known[2] if known is not None and known[0] == data else _compiled(state(txn))
        made = Rules(data, compiled, indexes.parse(catalogue or None))
        target.known_rules = known = (data, catalogue, compiled, made)
    return known[3]


def _compiled(found: State) -> list[Contract]:
    said = [found.active, found.pending and found.pending.members]
    return [contract.parse(members) for members in said if members]
