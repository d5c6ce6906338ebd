"""What looks like a secret, what does not, and where it is."""

import pytest

from apps.workloads.secret_patterns import find_secret


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"password": "x"}, "/password"),
        ({"PASSWORD": 1}, "/PASSWORD"),
        ({"a": {"api-key": "x"}}, "/a/api-key"),
        ({"a": {"apiKey": "x"}}, "/a/apiKey"),
        ({"a": [0, {"private_key": {"x": 1}}]}, "/a/1/private_key"),
        ({"token": "t"}, "/token"),
        ({"client_secret": "t"}, "/client_secret"),
        ({"password_hash": "t"}, "/password_hash"),
        ({"a": "-----BEGIN RSA PRIVATE KEY-----\nMII"}, "/a"),
        ({"a": "-----BEGIN ENCRYPTED PRIVATE KEY-----"}, "/a"),
        ("BEGIN PRIVATE KEY", ""),
        ("  sk-proj1234567890", ""),
        ("fdb_live_abcdefgh", ""),
        ("see fdb_test_abcdefgh_0123456789", ""),
        ("Authorization: Bearer abcdefghijklmnopqr0123", ""),
        ("AKIAIOSFODNN7EXAMPLE", ""),
        (["ghp_" + "a1" * 20], "/0"),
        ({"sk-abc123456789": 1}, ""),
        ({"a/b~c": {"secret": "x"}}, "/a~1b~0c/secret"),
    ],
)
def test_a_secret_is_found_where_it_is(value, pointer):
    finding = find_secret(value)
    assert finding is not None and finding.pointer == pointer


@pytest.mark.parametrize(
    "value",
    [
        {"token_count": 5},
        {"max_tokens": 5},
        {"secretary": "Ada"},
        {"password_reset_sent": True},
        {"token": None},
        {"token": False},
        {"secret": ""},
        {"tokenizer": "bpe"},
        "sk-learn",
        "sk-learn is a library",
        "the password is not here",
        "Bearer of good news",
        "risk-1234567890",
        "fdb_",
        {"note": "BEGIN PUBLIC KEY"},
        [1, 2.5, None, True, ["x"]],
    ],
)
def test_what_only_looks_alike_is_no_secret(value):
    assert find_secret(value) is None


def test_the_deepest_value_a_request_can_carry_is_searched_without_recursion():
    value = {"password": "x"}
    for _ in range(10_000):
        value = [value]
    finding = find_secret(value)
    assert finding is not None and finding.pointer.endswith("/password")
