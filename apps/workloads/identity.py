"""Names derived from what they name: the reference's rules, so that the same request has the same id everywhere."""

import hashlib

from apps.http import canonical_json


def workload_id(*, tenant: str, application: str, requester_kind: str, requester_id: str, key: str) -> str:
    """Return the id of the work that this idempotency scope makes: the id *is* the idempotency identity."""
    scope = [tenant, application, requester_kind, requester_id, key]
    return f"workload_{canonical_json.sha256_hex(scope)[:24]}"


def claim_id(workload: str, fencing_token: int, worker_id: str) -> str:
    """Return the id of one claim. It is no secret: the claim is bound to the principal that made it."""
    return f"claim_{hashlib.sha256(f'{workload}:{fencing_token}:{worker_id}'.encode()).hexdigest()[:20]}"


def lane_digest(definition_id: str, capabilities: list[str], priority: int, grant_id: str) -> str:
    """Return what names a lane within its namespace."""
    return canonical_json.sha256_hex([definition_id, capabilities, priority, *([grant_id] if grant_id else [])])
