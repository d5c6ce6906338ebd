"""Triggers in the console: list, form, dry run, why one did not fire, rebase, replays, quarantine.

Thin: every change is a service's (`apps.triggers.services`); a refusal is shown on the page it came from.
"""

from apps.triggers.admin.quarantine import TriggerQuarantineAdmin
from apps.triggers.admin.trigger import TriggerAdmin

__all__ = ["TriggerAdmin", "TriggerQuarantineAdmin"]
