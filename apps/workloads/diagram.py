"""The transition table as people read it: a diagram and a table, both made from `machine.TABLE`."""

from apps.workloads.machine import TABLE
from apps.workloads.states import FINAL, State


def mermaid() -> str:
    """Return the table as a Mermaid state diagram; several events between two states share an arrow."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for row in TABLE:
        arrows.setdefault((row.source, row.target), []).append(row.event)
    lines = ["stateDiagram-v2", f"    [*] --> {State.CREATED}"]
    lines += [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in FINAL]
    return "\n".join(lines)


def markdown() -> str:
    """Return the table as Markdown."""
    lines = ["| from | event | to | when |", "|---|---|---|---|"]
    lines += [f"| {row.source} | {row.event} | {row.target} | {row.guard} |" for row in TABLE]
    return "\n".join(lines)
