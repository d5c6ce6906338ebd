"""Who is at the console and which namespace they look at. For the console pages of every room above."""

from dataclasses import dataclass

from django.http import HttpRequest

from apps.keys import people
from apps.keys.models import Namespace, Operator
from apps.keys.principal import Principal

SESSION_KEY = "console_namespace"
FIRST_CHOICE = "default"
MAX_NAMESPACES = 200
"""Namespaces offered in the switch; others are reached by their name in the address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceChoice:
    """The namespace a page is about, and those to switch to. `current` is empty where there is none at all."""

    current: str
    names: tuple[str, ...]


def acting(request: HttpRequest) -> Principal:
    """Return who acts: the person who is signed in, with what they hold. Whether they may is the services' question."""
    assert isinstance(request.user, Operator)  # noqa: S101 - the console is behind the sign-in
    return people.principal_of(request.user)


def namespace_choice(request: HttpRequest) -> NamespaceChoice:
    """Return the namespace of the page: asked for by `?namespace=`, else the one last asked for, else the first.

    What was asked for is remembered in the session. Computed once for a request.
    """
    known = getattr(request, "_namespace_choice", None)
    if known is None:
        known = _choose(request)
        request._namespace_choice = known  # type: ignore[attr-defined]
    return known


def _choose(request: HttpRequest) -> NamespaceChoice:
    names = tuple(Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMESPACES])
    asked = request.GET.get("namespace", "")
    if asked and (asked in names or Namespace.objects.filter(name=asked).exists()):
        if request.session.get(SESSION_KEY) != asked:
            request.session[SESSION_KEY] = asked
        return NamespaceChoice(current=asked, names=names)
    kept = request.session.get(SESSION_KEY, FIRST_CHOICE)
    current = kept if kept in names else FIRST_CHOICE if FIRST_CHOICE in names else names[0] if names else ""
    return NamespaceChoice(current=current, names=names)
