"""Whether the authority that triggers run under still stands: asked before work is made, and now and then without.

Not here: whose authority a trigger has (`apps/triggers/services/defining.py`).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apps.keys import epoch
from apps.keys.grants import standing
from apps.keys.grants.errors import GrantRefused
from apps.triggers.evaluation.compiled import CompiledTrigger
from apps.triggers.limits import AUTHORITY_LOOK_S


@dataclass(frozen=True, slots=True)
class Ended:
    """A trigger whose authority has ended, and why."""

    compiled: CompiledTrigger
    refused: GrantRefused


class Watch:
    """Remembers when the authority of all triggers was last looked at, so that one who waits looks again in time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looked_at = float("-inf")
        self._epoch: int | None = None

    def due(self) -> bool:
        """Tell whether to look again: some key or grant was revoked on this host, or some time has passed."""
        return epoch.shared().read() != self._epoch or self._monotonic() - self._looked_at >= AUTHORITY_LOOK_S

    def looked(self) -> None:
        """Note that everything is looked at now; before the look, so that what is revoked meanwhile is due again."""
        self._epoch, self._looked_at = epoch.shared().read(), self._monotonic()


def ended(triggers: Iterable[CompiledTrigger], *, now_ms: int) -> list[Ended]:
    """Return those whose authority has ended."""
    alike: dict[tuple[str, str], list[CompiledTrigger]] = {}
    for each in triggers:
        if each.grant_id:
            alike.setdefault((each.namespace, each.grant_id), []).append(each)
    found = []
    for (namespace, grant_id), those in alike.items():
        refused = standing.refusal(namespace, grant_id, now_ms=now_ms)
        if refused is not None:
            found += [Ended(compiled, refused) for compiled in those]
    return found
