"""Actions of a person on many workloads: chosen once, looked at, then done one by one by a workload of their own.

    choosing.py     which workloads: a frozen set, in the order of their making
    ordering.py     draft, start, stop; how an order stands
    telling.py      what became of each row, as a file
    program.py      the built-in program that carries an order out

Each workload of the set is acted on in a transaction of its own, together with the note of its outcome: a worker that
is killed, or a second one, does nothing twice. It acts as the person who started it, as long as that person may.
"""

from apps.workloads.bulk.choosing import ACTS_IN, SCOPES, Selection
from apps.workloads.bulk.ordering import Standing, discard, draft, find, orders, standing, start, stop
from apps.workloads.bulk.telling import begin as export

__all__ = [
    "ACTS_IN",
    "SCOPES",
    "Selection",
    "Standing",
    "discard",
    "draft",
    "export",
    "find",
    "orders",
    "standing",
    "start",
    "stop",
]
