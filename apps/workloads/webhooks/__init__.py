"""Webhooks: work that POSTs JSON to somebody else's HTTPS server, signed as Standard Webhooks.

targets.py   what may be called: the address as it is written, and the addresses it resolves to
sending.py   one POST, to an address that was checked, within a deadline, along redirects
signing.py   secrets and signatures
program.py   the capability `webhook`: input, outcome, failures and when to try again
"""
