"""The signed form against the reference's vectors, and the strict reader."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.keys.grants import form, limits
from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.keyring import Ring, key_from_seed
from apps.keys.grants.signing import check_signature, sign
from tests.keys.grants import vectors

KEY = key_from_seed(vectors.SEED, now_ms=0)
RING = Ring(keys=(KEY,))


def document() -> dict[str, Any]:
    return json.loads(vectors.BYTES)


def signed() -> dict[str, Any]:
    return sign(form.read_grant(document()), KEY).wire()


def test_public_key_bytes_digest_and_signature_are_the_references_byte_for_byte() -> None:
    grant = form.read_grant(document())
    made = sign(grant, KEY)
    assert KEY.public.hex() == vectors.PUBLIC
    assert grant.signed_bytes() == vectors.BYTES
    assert (made.digest, made.signature, made.algorithm) == (vectors.DIGEST, vectors.SIGNATURE, "ED25519-V1")


def test_the_signed_bytes_do_not_depend_on_the_order_in_which_members_and_sets_arrive() -> None:
    shuffled = dict(reversed(document().items()))
    shuffled["capabilities"] = ["state:read", "b:c"]
    shuffled["constraints"] = dict(reversed(shuffled["constraints"].items()))
    assert form.read_grant(shuffled).signed_bytes() == vectors.BYTES


def test_sets_and_attributes_are_sorted_by_their_utf8_bytes_and_resources_keep_their_order() -> None:
    value = document()
    value["constraints"]["environments"] = ["é", "z", "Z", "𝄞", "中"]
    value["constraints"]["context_attributes"] = {"b": "2", "a": '"\\/'}
    value["resources"] = [{"kind": "RESOURCE", "uri": "flow://app/z"}, {"kind": "RESOURCE", "uri": "flow://app/a"}]
    written = form.read_grant(value).signed_bytes().decode()
    assert '"environments":["Z","z","é","中","𝄞"]' in written
    assert r'"context_attributes":{"a":"\"\\/","b":"2"}' in written
    assert written.index("flow://app/z") < written.index("flow://app/a")


def test_what_was_signed_reads_back_the_same_and_verifies() -> None:
    again = form.read_signed(json.loads(json.dumps(signed())))
    assert again.wire() == signed()
    check_signature(again, RING)


SPOILED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a member more": lambda s: s["grant"].update(extra=1),
    "a member more outside": lambda s: s.update(extra=1),
    "a member less": lambda s: s["grant"].pop("revision"),
    "a member renamed": lambda s: s["grant"].update(Status=s["grant"].pop("status")),
    "another version": lambda s: s["grant"].update(contract_version=2),
    "version zero": lambda s: s["grant"].update(contract_version=0),
    "the version as true": lambda s: s["grant"].update(contract_version=True),
    "the version as 1.0": lambda s: s["grant"].update(contract_version=1.0),
    "an unknown status": lambda s: s["grant"].update(status="active"),
    "a status that is a list": lambda s: s["grant"].update(status=["ACTIVE"]),
    "a negative instant": lambda s: s["grant"].update(issued_at=-1),
    "an instant beyond the calendar": lambda s: s["grant"].update(expires_at=2**62),
    "an instant as text": lambda s: s["grant"].update(expires_at="300"),
    "a capability twice": lambda s: s["grant"].update(capabilities=["a", "a"]),
    "a capability that is a wildcard": lambda s: s["grant"].update(capabilities=["*"]),
    "no capability": lambda s: s["grant"].update(capabilities=[]),
    "no resource": lambda s: s["grant"].update(resources=[]),
    "an unknown kind of resource": lambda s: s["grant"]["resources"][0].update(kind="ALL"),
    "an unknown kind of subject": lambda s: s["grant"]["subject"].update(kind="root"),
    "a lone surrogate": lambda s: s["grant"]["subject"].update(id="\ud800"),
    "a NUL": lambda s: s["grant"]["subject"].update(id="a\x00"),
    "an empty subject": lambda s: s["grant"]["subject"].update(id=""),
    "constraints that are null": lambda s: s["grant"].update(constraints=None),
    "an attribute that is a number": lambda s: s["grant"]["constraints"].update(context_attributes={"a": 1}),
    "a yes that is a number": lambda s: s["grant"]["constraints"].update(connection_enabled=1),
    "another algorithm": lambda s: s.update(algorithm="none"),
    "no grant": lambda s: s.update(grant=None),
    "a signature in capitals": lambda s: s.update(signature=s["signature"].upper()),
    "a signature too short": lambda s: s.update(signature=s["signature"][:-2]),
    "an odd number of digits": lambda s: s.update(signature=s["signature"][:-1]),
    "digits that are not ASCII": lambda s: s.update(signature="é" * 128),
    "digits of another script": lambda s: s.update(signature="٣" * 128),
    "blanks between digits": lambda s: s.update(signature="07 " * 42 + "07"),
    "a line end behind the digits": lambda s: s.update(signature=s["signature"] + "\n"),
    "a signature that is null": lambda s: s.update(signature=None),
    "a digest that is a list": lambda s: s.update(digest=[]),
    "a digest with a prefix": lambda s: s.update(digest="0x" + s["digest"][2:]),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_everything_but_the_exact_form_is_refused_and_never_a_crash(spoil: Callable[[dict[str, Any]], Any]) -> None:
    value = signed()
    spoil(value)
    with pytest.raises(GrantInvalid):
        form.read_signed(value)


@pytest.mark.parametrize("value", [None, True, 0, "", "{}", [], {}, {"grant": {}}, [signed()]], ids=repr)
def test_what_is_no_signed_grant_at_all_is_refused(value: Any) -> None:
    with pytest.raises(GrantInvalid):
        form.read_signed(value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_PLACES = st.sampled_from([(), *((name,) for name in signed()), *(("grant", name) for name in document())])


@settings(max_examples=300, deadline=None)
@given(_PLACES, _JSON)
def test_any_json_in_any_place_is_refused_or_read_but_never_a_crash(place: tuple[str, ...], junk: Any) -> None:
    value: Any = signed()
    if not place:
        value = junk
    elif len(place) == 1:
        value[place[0]] = junk
    else:
        value["grant"][place[1]] = junk
    try:
        read = form.read_signed(value)
    except GrantInvalid:
        return
    try:
        check_signature(read, RING)
    except GrantInvalid:
        return
    assert read.grant.signed_bytes() == vectors.BYTES


@pytest.mark.parametrize(
    ("members", "at_most"),
    [
        (lambda n: {"capabilities": [f"c{i}" for i in range(n)]}, limits.MAX_CAPABILITIES),
        (lambda n: {"resources": [{"kind": "RESOURCE", "uri": f"flow://app/{i}"} for i in range(n)]}, 128),
        (lambda n: {"id": "x" * n}, limits.MAX_ID_CHARS),
        (lambda n: {"application_id": "x" * n}, limits.MAX_ID_CHARS),
        (lambda n: {"subject": {"kind": "agent", "id": "x" * n}}, limits.MAX_TEXT_CHARS),
        (lambda n: {"resources": [{"kind": "RESOURCE", "uri": "u" * n}]}, limits.MAX_URI_CHARS),
    ],
    ids=["capabilities", "resources", "id", "application", "subject", "address"],
)
def test_every_limit_holds_at_its_number_and_not_one_beyond(members: Any, at_most: int) -> None:
    form.read_grant({**document(), **members(at_most)})
    with pytest.raises(GrantInvalid):
        form.read_grant({**document(), **members(at_most + 1)})


@pytest.mark.parametrize("position", range(0, len(vectors.BYTES), 7))
def test_no_byte_of_the_grant_can_change_without_the_signature_failing(position: int) -> None:
    key = RING.current
    changed = bytearray(vectors.BYTES)
    changed[position] ^= 1
    assert not key.verifies(bytes.fromhex(vectors.SIGNATURE), bytes(changed))


def test_a_signature_of_a_key_outside_the_ring_is_refused_whatever_id_it_names() -> None:
    stranger = key_from_seed(b"\x08" * 32, now_ms=0)
    for key_id in (stranger.id, KEY.id):
        forged = {**sign(form.read_grant(document()), stranger).wire(), "key_id": key_id}
        with pytest.raises(GrantInvalid):
            check_signature(form.read_signed(forged), RING)
