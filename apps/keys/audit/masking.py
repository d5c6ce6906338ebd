"""What never goes into the audit trail, and how a text is made safe to keep, print and export. Pure."""

import re

MASK = "***"

_SECRETS = re.compile(
    r"(?:fdb_[A-Za-z0-9]{1,16}_)[A-Za-z0-9_%]{8,}"
    r"|(?:session_token_)[A-Za-z0-9]{8,}"
    r"|(?:sk-)[A-Za-z0-9_-]{16,}"
    r"|(?:\bBearer\s+)[^\s\"']{8,}"
    r"|(?:\bBasic\s+)[A-Za-z0-9+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?:\b(?:[a-z_]*password|passwd|secret|[a-z_]*token|api_?key|private_?key|pepper|seed)[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s&\"',;}]+"
    r"|(?:://[^/\s:@]*:)[^/\s@]+(?=@)",
    re.IGNORECASE | re.DOTALL,
)
_LABEL = re.compile(
    r"fdb_[A-Za-z0-9]{1,16}_|session_token_|sk-|Bearer\s+|Basic\s+|://[^/\s:@]*:"
    r"|[a-z_]*(?:password|passwd|secret|token|api_?key|private_?key|pepper|seed)[\"']?\s*[=:]\s*[\"']?",
    re.IGNORECASE,
)


def safe(text: object, max_chars: int) -> str:
    """Return the text with secrets masked, unprintable characters written as `\\u{hex}`, and cut to `max_chars`.

    Masking comes before cutting, so that no cut leaves a secret that no longer looks like one.
    """
    masked = _SECRETS.sub(_mask, str(text))
    visible = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in masked[: max_chars + 1])
    return visible if len(visible) <= max_chars else visible[: max_chars - 3] + "..."


def _mask(match: re.Match[str]) -> str:
    label = _LABEL.match(match.group())
    return (label.group() if label else "") + MASK
