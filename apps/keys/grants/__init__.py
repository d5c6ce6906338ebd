"""Grants: signed statements of authority that travel with work.

    form.py       what a grant is and its signed bytes        pure
    resources.py  addresses, and what a scope of them covers  pure
    rules.py      narrower than, constraints, time            pure
    keyring.py    the signing keys, in files                  Ed25519
    signing.py    signature and digest over the signed bytes
    checking.py   one grant against one request: the decision
    pruning.py    those that ended long ago are removed
    services.py   issue, issue_for, delegate, revoke, verify, read

Not here: who calls (`apps.keys.principal`) and what a key is (`apps.keys.models`).
"""
