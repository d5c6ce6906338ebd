"""Declared programs of a namespace: kept as records of `_flow_capabilities`, checked before they are.

Not here: what a program is (`apps/state/programs.py`), and running them.
"""

from typing import Any

from apps.state import programs
from apps.state.calls import Call
from apps.state.conditions import Conditions
from apps.state.inputs import PageRequest
from apps.state.services import records
from apps.state.services.records import Read, RecordPage, Written


def page(call: Call, wanted: PageRequest) -> RecordPage:
    """Return a page of the programs, by name."""
    return records.page(call, programs.COLLECTION, wanted)


def read(call: Call, name: str) -> Read:
    """Return a program. Raises NOT_FOUND."""
    return records.read(call, programs.COLLECTION, name)


def save(call: Call, name: str, body: Any, conditions: Conditions) -> Written:
    """Store a program under its name, replacing one that is there. Raises VALIDATION_ERROR, IF_MATCH_FAILED."""
    checked = programs.read_program(body)
    return records.put_own(call, programs.COLLECTION, programs.read_name(name), checked.record(), conditions)


def remove(call: Call, name: str, conditions: Conditions) -> Written:
    """Remove a program. Raises NOT_FOUND, IF_MATCH_FAILED."""
    return records.delete_own(call, programs.COLLECTION, name, conditions)
