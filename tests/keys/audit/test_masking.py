"""No secret and no control character gets into a text of the audit trail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.keys import token
from apps.keys.audit.masking import safe

KEY = token.new_token(token.new_key_id(), "live").text
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"

SECRETS = {
    "a key": (KEY, KEY[-40:]),
    "a key in a path": (f"GET /v1/grants/{KEY}/revoke", KEY[-40:]),
    "a key cut short": (KEY[:40], KEY[20:40]),
    "a key of another environment": ("fdb_test_abcdefghijkl_SECRETSECRET", "SECRETSECRET"),
    "a reference key": ("fdb_live_" + "S3cr3t" * 8, "S3cr3tS3cr3t"),
    "a header": ("Authorization: Bearer S3cr3tS3cr3t", "S3cr3t"),
    "basic credentials": ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpw"),
    "a session token": ("session_token_S3cr3tS3cr3t", "S3cr3t"),
    "a member of JSON": ('{"password": "S3cr3t", "a": 1}', "S3cr3t"),
    "a query parameter": ("/x?access_token=S3cr3t&b=1", "S3cr3t"),
    "a database address": ("postgres://root:S3cr3t@db:5432/test", "S3cr3t"),
    "a private key": (PEM, "MIIEow"),
    "a private key cut short": (PEM[:45], "MIIEow"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_masked_and_the_text_around_it_stays(text: str, secret: str) -> None:
    masked = safe(f"before {text} after", 500)
    assert secret not in masked and "***" in masked and masked.startswith("before ")


@pytest.mark.parametrize("cut", range(20, 120, 3))
def test_no_cut_leaves_a_piece_of_a_secret(cut: int) -> None:
    text = safe(f"somebody sent {KEY} and more", cut)
    assert len(text) <= cut and not any(KEY[start : start + 12] in text for start in range(22, len(KEY) - 12))


@pytest.mark.parametrize(
    "text", ["GET /v1/keys/current", "the key lacks the scope state:read", "token bucket", "secretary", "fdb_live_x"]
)
def test_plain_texts_stay_as_they_are(text: str) -> None:
    assert safe(text, 500) == text


@given(st.text(), st.integers(10, 60))
def test_every_text_becomes_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    made = safe(text, limit)
    assert made.isprintable() and len(made) <= limit
    made.encode()


def test_characters_that_a_terminal_or_a_database_would_act_on_become_visible() -> None:
    assert safe("a\x00b\x1b[31mc\nd\u202ee\ud800", 99) == r"a\u{0}b\u{1b}[31mc\u{a}d\u{202e}e\u{d800}"
