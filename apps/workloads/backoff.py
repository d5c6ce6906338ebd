"""How long failed, timed-out or lost work waits before its next attempt. One formula for all. Pure.

    cap    = min(initial_delay_ms * 2^(attempts used - 1), max_delay_ms)      (fixed: min(initial, max))
    delay  = a whole number drawn evenly from [0, cap]                        (full jitter)

Full jitter spreads a herd of failures over the whole interval instead of bringing it back at one moment.
"""

import random

from apps.workloads.commands import RetryPolicy

_system_random = random.SystemRandom()


def cap_ms(policy: RetryPolicy, attempts_used: int) -> int:
    """Return the longest wait after that many attempts (at least 1) were used."""
    if policy.backoff == "fixed":
        return min(policy.initial_delay_ms, policy.max_delay_ms)
    # Shifting by more than 63 only makes a number that the cap cuts off anyway.
    return min(policy.initial_delay_ms << min(max(attempts_used, 1) - 1, 63), policy.max_delay_ms)


def delay_ms(policy: RetryPolicy, attempts_used: int, *, rng: random.Random | None = None) -> int:
    """Return how long to wait; give `rng` a seeded generator to repeat a run."""
    return (rng or _system_random).randint(0, cap_ms(policy, attempts_used))
