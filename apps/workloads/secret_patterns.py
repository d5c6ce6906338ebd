"""What looks like a secret in work's input, output or checkpoints, and where it is. Pure.

Work is kept in clear, shown to operators and handed to workers, so a secret must not be in it: name it, and let the
worker fetch it. Two rules: a member *named* as a secret that carries something, and text *formed* as a known
credential. A member whose name merely contains such a word (`token_count`), an empty or null one, and ordinary words
(`sk-learn`) are no secrets.
"""

import re
from typing import Any, NamedTuple

SECRET_NAMES = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "passwordhash",
        "secret",
        "clientsecret",
        "secretkey",
        "secretaccesskey",
        "token",
        "accesstoken",
        "refreshtoken",
        "authtoken",
        "apikey",
        "apitoken",
        "privatekey",
    }
)
"""Member names, in lower case without `_`, `-` and blanks."""

SECRET_TEXTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY|BEGIN PRIVATE KEY")),
    ("a FeltDB key", re.compile(r"(?<![A-Za-z0-9_])fdb_[a-z0-9]+_\w{4,}")),
    ("an API key", re.compile(r"^\s*sk[-_](?=[^\s]*[0-9])[A-Za-z0-9_-]{8,}\s*$")),
    (
        "a bearer credential",
        re.compile(r"\b(?:Bearer|Basic)\s+(?=\S*[0-9])[A-Za-z0-9._~+/=-]{16,}", re.I),
    ),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})\b")),
    ("a signed web token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
)

_HINT = re.compile(r"PRIVATE KEY|fdb_|^\s*sk[-_]|bearer|basic|AKIA|ASIA|gh[pousr]_|github_pat_|eyJ", re.I)
_SQUEEZE = str.maketrans("", "", "_- ")


class Finding(NamedTuple):
    """Where something looks like a secret (RFC 6901 pointer) and what it looks like; never the secret."""

    pointer: str
    reason: str


def find_secret(value: Any, pointer: str = "") -> Finding | None:
    """Return the first finding in `value`, in its own order, or None."""
    stack: list[tuple[str, Any]] = [(pointer, value)]
    while stack:
        at, item = stack.pop()
        if isinstance(item, str):
            if reason := text_reason(item):
                return Finding(at, reason)
        elif isinstance(item, dict):
            inner = []
            for name, member in item.items():
                here = f"{at}/{_escape(name)}"
                if _carries(member) and name.lower().translate(_SQUEEZE) in SECRET_NAMES:
                    return Finding(here, "a member of that name")
                if reason := text_reason(name):
                    return Finding(at, f"a member named as {reason}")
                inner.append((here, member))
            stack.extend(reversed(inner))
        elif isinstance(item, list | tuple):
            stack.extend((f"{at}/{index}", item[index]) for index in range(len(item) - 1, -1, -1))
    return None


def text_reason(text: str) -> str | None:
    """Return what kind of credential `text` is or holds, or None."""
    if _HINT.search(text) is None:
        return None
    return next((reason for reason, pattern in SECRET_TEXTS if pattern.search(text)), None)


def _carries(member: Any) -> bool:
    return member is not None and member is not False and member is not True and member not in ("", [], {})


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
