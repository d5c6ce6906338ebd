"""Is there an order of these calls, each between its begin and its end, that a sequential object explains?

Wing and Gong's search with Lowe's memory of what was tried: calls are taken from the front of the history one by one,
and a (set of calls taken, state) that was reached before is not tried again. A call that was never answered (its
process was killed) may have taken effect at any time after its begin, or never.

The object is given as a pure function, `step(state, request) -> (answer, state after)`. States and answers are hashable
and compared by value.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

Step = Callable[[Any, Any], tuple[Hashable, Hashable]]
STATES_MAX = 300_000  # about 500 MB


class Call(NamedTuple):
    """What a process asked and was told. Times are of one clock; `end` and `answer` are None where no answer came."""

    process: str
    begin: int
    end: int | None
    request: Any
    answer: Any


class Undecided(Exception):
    """The search took too many states. Never to be taken for a yes."""


def stuck_at(
    step: Step, initial: Hashable, calls: Sequence[Call], *, states_max: int = STATES_MAX
) -> list[Call] | None:
    """None where the history is linearizable, else the calls of which none could come next in the longest attempt.

    Raises Undecided after `states_max` states.
    """
    following, preceding = _events(calls)
    end_node = len(following) - 1
    count = len(calls)
    state, taken = initial, 0
    tried: set[tuple[int, Hashable]] = {(0, initial)}
    path: list[tuple[int, Hashable]] = []
    deepest, blocking = -1, list[Call]()
    node = following[0]
    while node != end_node:
        if node > count:  # the end of a call that was not taken: nothing after it may come first
            if len(path) > deepest:
                deepest, blocking = len(path), _open_calls(following, node, calls)
            if not path:
                return blocking
            node, state = path.pop()
            taken ^= 1 << node
            _put_back(following, preceding, node, count, calls)
            node = following[node]
            continue
        call = calls[node - 1]
        answer, after = step(state, call.request)
        if call.end is None or answer == call.answer:
            reached = (taken | 1 << node, after)
            if reached not in tried:
                if len(tried) >= states_max:
                    raise Undecided(f"more than {states_max} states")
                tried.add(reached)
                path.append((node, state))
                taken, state = reached
                _take(following, preceding, node, count, calls)
                node = following[0]
                continue
        node = following[node]
    return None


def _events(calls: Sequence[Call]) -> tuple[list[int], list[int]]:
    """Begins and ends by time, as a linked list. Node 0 is the head, 1..n begins, n+1..2n ends, 2n+1 the end."""
    count = len(calls)
    events = [(call.begin, 0, index + 1) for index, call in enumerate(calls)]
    events += [(call.end, 1, count + index + 1) for index, call in enumerate(calls) if call.end is not None]
    order = [0, *(node for _, _, node in sorted(events)), 2 * count + 1]
    following, preceding = [0] * (2 * count + 2), [0] * (2 * count + 2)
    for before, after in pairwise(order):
        following[before], preceding[after] = after, before
    return following, preceding


def _take(following: list[int], preceding: list[int], node: int, count: int, calls: Sequence[Call]) -> None:
    for one in (node, node + count) if calls[node - 1].end is not None else (node,):
        following[preceding[one]], preceding[following[one]] = following[one], preceding[one]


def _put_back(following: list[int], preceding: list[int], node: int, count: int, calls: Sequence[Call]) -> None:
    for one in (node + count, node) if calls[node - 1].end is not None else (node,):
        following[preceding[one]] = preceding[following[one]] = one


def _open_calls(following: list[int], until: int, calls: Sequence[Call]) -> list[Call]:
    found, node = [], following[0]
    while node != until:
        found.append(calls[node - 1])
        node = following[node]
    return found
