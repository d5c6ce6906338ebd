"""Work that a late flight calls for. The worker finds this module because `demo` is among the installed apps."""

from typing import Any

from apps.workloads.capabilities import capability

EUROS_AN_HOUR = 25


class CounterClosed(Exception):
    """The record `settings:compensation` says that nothing is paid out for this flight at the moment."""


@capability("compensate_delay")
def compensate_delay(work: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return what the passengers of a late flight are due: `{"flight", "minutes_late", "euros"}`.

    Raises `CounterClosed` for the flight named in `settings:compensation`, to show how work dies and is retried.
    """
    flight = work["source"]["key"].partition(":")[2]
    settings = context.get("settings", "compensation")
    if settings is not None and settings.value.get("closed_for") == flight:
        raise CounterClosed(f"nothing is paid out for {flight} until the record settings:compensation says otherwise")
    minutes = work["record"]["arr_delay"]
    return {"flight": flight, "minutes_late": minutes, "euros": minutes * EUROS_AN_HOUR // 60}
