"""One byte form for each JSON value, for digests and for comparing what two runtimes wrote.

    no blanks; members sorted by their UTF-8 bytes; text unescaped except what JSON demands; integers as written;
    floats in their shortest form that reads back the same: 1.0, 0.00001, 1e-7, 1e+16, -0.0

`1` and `1.0` have different forms. Not here: reading JSON (`strict_json.py`).
"""

import hashlib
from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value whose integers fit 64 bits and whose floats are finite.

    Raises `TypeError` for anything that is not JSON. A float that is not finite cannot be told from null here: the
    strict readers refuse it at the door.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def sha256_hex(value: Any) -> str:
    """Return the lower-case hex SHA-256 of the canonical bytes."""
    return hashlib.sha256(dumps(value)).hexdigest()
