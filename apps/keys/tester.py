"""Would this call pass, and which rule decides? For `keys check` and the console's tester; nothing is called.

The rules are asked in the door's own order, with the door's own functions:

    route       the path and method are the API's                          404, 405
    key         the secret authenticates                                   401
    scope       the key holds what the method needs                        403 MISSING_SCOPE
    namespace   the key may act in the namespace                           400, 403 NAMESPACE_DENIED
    collection  a collection in the path is one of the key's               403 COLLECTION_DENIED

What only the body or the query tells (a transaction's collections, the worker a claim is for) is named in the verdict,
not decided.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from django.urls import Resolver404, resolve

from apps.http.console import CONSOLE_PREFIX
from apps.http.errors import ApiError, authentication_required
from apps.keys import peppers, token, verify
from apps.keys.models import ApiKey
from apps.keys.permissions import namespace_of, require_collection, require_scope
from apps.keys.principal import Principal
from apps.keys.views import METHODS, KeyedView

Rule = Literal["route", "public", "key", "scope", "namespace", "collection", "all"]

_WORKER_SCOPES = frozenset({"workload:claim", "workload:execute", "worker:heartbeat"})
_COLLECTION_SCOPES = frozenset({"state:read", "state:write", "events:read", "schema:write", "triggers:write"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether the call passes the door, which rule decided, in a sentence why, and as which answer.

    `status` and `code` are those of the refusal, None where it passes: what the call itself then answers is another
    matter. `left` names what the rest of the call decides: its body, its query, and what they name.
    """

    passes: bool
    rule: Rule
    why: str
    status: int | None = None
    code: str | None = None
    left: tuple[str, ...] = ()


class _Decided(Exception):
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


def would_pass(
    secret: str, method: str, target: str, *, namespace: str | None, now: datetime
) -> tuple[Principal | None, Verdict]:
    """Return whom the secret authenticates and the verdict on the call. `target` is a path, with or without a query."""
    principal = verify.principal_of(secret, now=now)
    return principal, verdict_for(principal, method, target, namespace=namespace)


def why_nobody(secret: str, *, now: datetime) -> str:
    """Return why the secret authenticates nobody. For whoever runs the instance: callers are never told."""
    given = token.parse(secret)
    if given is None:
        imported = token.is_imported_form(secret)
        return "no imported key has this token" if imported else "this is no well-formed key: mistyped, cut or not ours"
    key = ApiKey.objects.filter(pk=given.key_id).first()
    if key is None:
        return f"there is no key {given.key_id}"
    digests = peppers.known().digests(secret)
    kept = next((row for row in key.secrets.all() if bytes(row.digest) == digests.get(row.pepper_version)), None)
    if kept is None:
        return f"the key {key.id} is there; this is not, or no longer, one of its secrets"
    if key.revoked_at is not None:
        return f"the key {key.id} is revoked since {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC by {key.revoked_by}"
    if key.state(now) == "expired":
        return f"the key {key.id} expired at {key.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"the key {key.id} was rotated; the grace of this secret ended at {kept.ends_at:%Y-%m-%d %H:%M:%S} UTC"


def verdict_for(principal: Principal | None, method: str, target: str, *, namespace: str | None) -> Verdict:
    """Return the verdict on the call by this principal; None is a secret that authenticates nobody."""
    method = "GET" if method == "HEAD" else method
    try:
        view, arguments = _route(method, target)
        if principal is None:
            raise _decided("key", authentication_required())
        return _asked(principal, view, method, arguments, namespace)
    except _Decided as decided:
        return decided.verdict


def _route(method: str, target: str) -> tuple[type[KeyedView], Mapping[str, str]]:
    path = urlsplit(target).path
    try:
        match = resolve(path)
    except Resolver404:
        raise _decided("route", ApiError("NOT_FOUND", "There is nothing at this path.")) from None
    view: Any = getattr(match.func, "cls", None)
    if path.startswith(CONSOLE_PREFIX):
        raise _decided("route", ApiError("FORBIDDEN", "The console takes no key; a person signs in."))
    if view is None or not issubclass(view, KeyedView):
        raise _Decided(Verdict(passes=True, rule="public", why="No key is asked for here."))
    if not _serves(view, method):
        view = getattr(match.func, "beside", view)  # another view of the same path, for other methods
    if not _serves(view, method):
        raise _decided("route", ApiError("METHOD_NOT_ALLOWED", f"{method} is not served at this path."))
    return view, match.kwargs


def _serves(view: type[KeyedView], method: str) -> bool:
    return method in METHODS and hasattr(view, method.lower())


def _asked(
    principal: Principal, view: type[KeyedView], method: str, arguments: Mapping[str, str], namespace: str | None
) -> Verdict:
    needed = view.needed(method)
    for each in needed:
        _ask("scope", lambda each=each: require_scope(principal, each))
    if view.namespaced:
        _ask("namespace", lambda: namespace_of(principal, namespace))
    collection = arguments.get("collection")
    if collection is not None:
        _ask("collection", lambda: require_collection(principal, unquote(collection)))
    held = f"holds {' and '.join(needed)}" if needed else "is valid, which is all this route asks"
    left = _left(principal, view, method, arguments, namespace)
    return Verdict(passes=True, rule="all", why=f"The key {held}.", left=tuple(left))


def _left(
    principal: Principal,
    view: type[KeyedView],
    method: str,
    arguments: Mapping[str, str],
    namespace: str | None,
) -> list[str]:
    left, needed = [], frozenset(view.needed(method))
    if namespace and not view.namespaced and not principal.may_enter(namespace):
        left.append("where the route heeds FeltDB-Namespace, it must name a namespace of the key")
    if needed & _WORKER_SCOPES:
        left.append("the worker that the body names must be this key's own, or the key must manage workers")
    if principal.collections is not None and "collection" not in arguments and needed & _COLLECTION_SCOPES:
        left.append("every collection that the call names or reads must be one of the key's")
    left += [
        f"where the body calls for it, the key must hold {scope}"
        for scope in view.by_body.get(method, ())
        if not principal.has(scope)
    ]
    return left


def _ask(rule: Rule, question: Any) -> None:
    try:
        question()
    except ApiError as refused:
        raise _decided(rule, refused) from None


def _decided(rule: Rule, refused: ApiError) -> _Decided:
    return _Decided(Verdict(passes=False, rule=rule, why=refused.message, status=refused.status, code=refused.code))
