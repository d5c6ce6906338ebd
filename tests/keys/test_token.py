"""The text of a secret, and what is kept of it."""

import re
import string

import pytest

from apps.keys import token


def test_a_token_has_the_stated_form_and_reads_back() -> None:
    made = token.new_token(token.new_key_id(), "live")
    assert re.fullmatch(r"fdb_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", made.text)
    read = token.parse(made.text)
    assert read == made and read.key_id in made.text


def test_no_two_tokens_or_ids_are_the_same() -> None:
    ids = {token.new_key_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert len({token.new_token("a" * 12, "live").text for _ in range(1000)}) == 1000


def test_every_single_mistyped_character_is_noticed() -> None:
    text = token.new_token(token.new_key_id(), "live").text
    for place in range(len(text)):
        for other in (string.ascii_letters + string.digits + "_")[place % 7 :: 7]:
            if other != text[place]:
                assert token.parse(text[:place] + other + text[place + 1 :]) is None


def test_swapped_neighbours_are_noticed() -> None:
    text = token.new_token(token.new_key_id(), "live").text
    for place in range(len(text) - 1):
        swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        assert swapped == text or token.parse(swapped) is None


@pytest.mark.parametrize(
    "text", ["", "fdb_", "fdb_live_x_y", "ghp_" + "a" * 66, "fdb_LIVE_" + "a" * 62, "fdb_live_" + "é" * 62, "\0" * 71]
)
def test_anything_else_is_no_token(text: str) -> None:
    assert token.parse(text) is None


def test_blanks_around_or_a_second_line_make_it_no_token() -> None:
    text = token.new_token(token.new_key_id(), "live").text
    assert [token.parse(other) for other in (text + "\n", " " + text, text + "x")] == [None] * 3


def test_the_representation_of_a_token_does_not_show_it() -> None:
    made = token.new_token("a" * 12, "live")
    assert made.text not in repr(made) and made.text[-20:] not in f"{made}"
