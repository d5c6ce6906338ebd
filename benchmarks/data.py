"""The records every contestant stores: the same keys, values and picks for the same arguments."""

import random

STATUSES = ("new", "open", "paid", "sent", "done")
OWNERS = 1000
BODY_CHARACTERS = 200
COLLECTION = "items"
_POOL = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=1 << 20))


def record_id(number: int) -> str:
    """The id of record `number`, in key order."""
    return f"{number:08d}"


def value(number: int, generation: int = 0) -> dict[str, object]:
    """The JSON value of record `number`, about 270 bytes of JSON; another for each generation."""
    mixed = ((number + 1) * 2654435761 + generation * 40503) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = (mixed * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed ^= mixed >> 12
    start = mixed % (len(_POOL) - BODY_CHARACTERS)
    return {
        "id": number,
        "status": STATUSES[mixed % len(STATUSES)],
        "owner": f"owner-{(mixed >> 8) % OWNERS:03d}",
        "amount": (mixed >> 3) % 1_000_000,
        "body": _POOL[start : start + BODY_CHARACTERS],
    }


def picks(records: int, count: int, seed: int) -> list[int]:
    """`count` record numbers below `records`, uniformly, the same for the same seed."""
    rng = random.Random(seed)
    return [rng.randrange(records) for _ in range(count)]
