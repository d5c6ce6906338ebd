"""From checked request bodies to commands. Refusals of shape are 400 VALIDATION_ERROR with the pointer of the place."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from apps.http.errors import ApiError
from apps.keys.principal import Principal
from apps.workloads import limits, wanted
from apps.workloads.api import schemas
from apps.workloads.commands import (
    BY_CHANGE,
    ClaimById,
    ClaimNext,
    Completion,
    CreateWorkload,
    Failure,
    Fence,
    Subject,
)

_Strict = extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


_BOUNDS = {
    "minimum": "Must be at least {}.",
    "maximum": "Must be at most {}.",
    "minLength": "Must be {} or more characters long.",
    "maxLength": "Must be {} or fewer characters long.",
    "minItems": "Must hold {} or more items.",
    "maxItems": "Must hold {} or fewer items.",
}


class Body:
    """One kind of request body. Integers are integers: neither 1.0 nor true nor "1" passes for one."""

    def __init__(self, schema: schemas.Schema) -> None:
        self._validator = _Strict(schema)

    def read(self, data: Any) -> dict[str, Any]:
        """Return the body. Raises VALIDATION_ERROR naming the first place that does not fit."""
        error = next(iter(self._validator.iter_errors(data)), None)
        if error is None:
            return data  # type: ignore[no-any-return]
        error = _meant(error)
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in error.absolute_path)
        raise ApiError("VALIDATION_ERROR", _plain(error), details={"pointer": pointer})


def _meant(error: Any) -> Any:
    """Of a choice that nothing fits, return what is wrong with the one that is of the value's own type."""
    while error.context:
        near = [each for each in error.context if each.validator != "type" or each.path]
        if not near:
            break
        error = near[0]
    return error


def _plain(error: Any) -> str:
    """Say what is wrong without repeating what was sent: it may be large, or a secret."""
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"Missing: {', '.join(missing)}."
    if error.validator == "additionalProperties":
        unknown = sorted(set(error.instance) - set(error.schema["properties"]))
        return f"There is no member {', '.join(unknown)[:200]} here."
    if error.validator == "type":
        wanted = error.validator_value
        return f"Must be {wanted if isinstance(wanted, str) else ' or '.join(wanted)}."
    if error.validator == "enum":
        return f"Must be one of {', '.join(str(each) for each in error.validator_value)}."
    if error.context:
        return f"Must be {' or '.join(each.validator_value for each in error.context)}."
    return _BOUNDS.get(error.validator, "Does not fit.").format(error.validator_value)


CREATE = Body(schemas.CREATE)
CLAIM_BY_ID = Body(schemas.CLAIM_BY_ID)
CLAIM_NEXT = Body(schemas.CLAIM_NEXT)
FENCE = Body(schemas.FENCE)
HEARTBEAT = Body(schemas.HEARTBEAT)
CHECKPOINT = Body(schemas.CHECKPOINT)
CONTEXT = Body(schemas.CONTEXT)
COMPLETE = Body(schemas.COMPLETE)
FAIL = Body(schemas.FAIL)
COMPLETE_MANY = Body(schemas.COMPLETE_MANY)
FAIL_MANY = Body(schemas.FAIL_MANY)
CANCEL = Body(schemas.CANCEL)
RETRY = Body(schemas.RETRY)


def subject_of(principal: Principal) -> Subject:
    """Return the principal's subject as work names it."""
    return Subject(kind=principal.subject.kind.lower(), id=principal.subject.id)  # type: ignore[arg-type]


def create(data: Any, *, namespace: str, principal: Principal, traceparent: str | None = None) -> CreateWorkload:
    """Return the request for work. Whoever calls is who requests, whatever the body says."""
    body = CREATE.read(data)
    if body.get("tenant_id", namespace) != namespace:
        raise ApiError(
            "VALIDATION_ERROR", "tenant_id must be the request's namespace.", details={"pointer": "/tenant_id"}
        )
    if body.get("trigger", "").startswith(BY_CHANGE):
        raise ApiError(
            "VALIDATION_ERROR", f"Only a state trigger's work begins with {BY_CHANGE}.", details={"pointer": "/trigger"}
        )
    return CreateWorkload(
        namespace=namespace, requested_by=subject_of(principal), traceparent=traceparent, **wanted.members(body)
    )


def acting_worker(body: Mapping[str, Any], principal: Principal) -> str:
    """Return the worker the body speaks for, if the caller may speak for it.

    A worker's key speaks for that worker alone; any other key needs `worker:manage`. Raises FORBIDDEN with reason
    WORKER_MISMATCH.
    """
    worker_id: str = body["worker_id"]
    is_worker = principal.subject.kind == "Worker"
    if principal.may_act_as_worker(worker_id) or (not is_worker and principal.has("worker:manage")):
        return worker_id
    raise ApiError(
        "FORBIDDEN",
        "Only the worker's own key may act as it, or a key with worker:manage that is no worker itself.",
        reason="WORKER_MISMATCH",
    )


def claim_by_id(body: Mapping[str, Any], workload_id: str, *, namespace: str, principal: Principal) -> ClaimById:
    """Return the claim of one workload."""
    capabilities = body.get("capabilities")
    return ClaimById(
        namespace=namespace,
        workload_id=workload_id,
        worker_id=acting_worker(body, principal),
        principal=principal.label,
        lease_ms=body.get("lease_ms", limits.DEFAULT_LEASE_MS),
        capabilities=None if capabilities is None else frozenset(capabilities),
    )


def claim_next(body: Mapping[str, Any], *, namespace: str, principal: Principal) -> ClaimNext:
    """Return the claim of the next workloads."""
    return ClaimNext(
        namespace=namespace,
        worker_id=acting_worker(body, principal),
        principal=principal.label,
        capabilities=frozenset(body["capabilities"]),
        max=body.get("max", 1),
        lease_ms=body.get("lease_ms", limits.DEFAULT_LEASE_MS),
    )


def fence(body: Mapping[str, Any], workload_id: str, *, namespace: str, principal: Principal) -> Fence:
    """Return which claim the body speaks for."""
    return Fence(
        namespace=namespace,
        workload_id=workload_id,
        worker_id=acting_worker(body, principal),
        claim_id=body["claim_id"],
        fencing_token=body["fencing_token"],
        principal=principal.label,
    )


def reports(body: Mapping[str, Any], *, namespace: str, principal: Principal) -> list[tuple[Fence, Mapping[str, Any]]]:
    """Return each report of a batch with the claim it speaks for; one worker speaks for them all."""
    worker_id = acting_worker(body, principal)
    return [
        (
            Fence(
                namespace=namespace,
                workload_id=each["workload_id"],
                worker_id=worker_id,
                claim_id=each["claim_id"],
                fencing_token=each["fencing_token"],
                principal=principal.label,
            ),
            each,
        )
        for each in body["reports"]
    ]


def completion(body: Mapping[str, Any]) -> Completion:
    """Return the success reported."""
    return Completion(
        result_id=body["result_id"],
        output=body["output"],
        artifacts=tuple(body.get("artifacts", ())),
        schema_version=body.get("schema_version", 1),
    )


def failure(body: Mapping[str, Any]) -> Failure:
    """Return the failure reported."""
    return Failure(
        kind=body["kind"],
        error=body.get("error", ""),
        effect=body.get("effect"),
        retry_after_ms=body.get("retry_after_ms"),
    )
