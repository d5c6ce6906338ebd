"""Signature and digest of a grant. Not here: whether a grant that verifies also holds (`checking.py`)."""

import hashlib
import hmac

from apps.keys.grants.errors import GrantInvalid
from apps.keys.grants.form import Grant, SignedGrant
from apps.keys.grants.keyring import Ring, SigningKey


def sign(grant: Grant, key: SigningKey) -> SignedGrant:
    """Return the grant, signed by the key."""
    message = grant.signed_bytes()
    return SignedGrant(
        grant=grant,
        key_id=key.id,
        digest=hashlib.sha256(message).hexdigest(),
        signature=key.sign(message).hex(),
    )


def check_signature(signed: SignedGrant, ring: Ring) -> None:
    """Raise GrantInvalid unless a key of the ring signed exactly this grant."""
    key = ring.find(signed.key_id)
    if key is None:
        raise GrantInvalid("the grant is signed by a key that is not this server's", field="key_id")
    message = signed.grant.signed_bytes()
    if not hmac.compare_digest(hashlib.sha256(message).hexdigest(), signed.digest):
        raise GrantInvalid("the digest is not that of the grant", field="digest")
    # The reader accepted 128 lower-case hex digits and nothing else.
    if not key.verifies(bytes.fromhex(signed.signature), message):
        raise GrantInvalid("the signature is not that of the grant", field="signature")
