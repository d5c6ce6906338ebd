"""Who is calling, and as whom they act. Pure: no database, no HTTP.

The rule from principal to subject is the security boundary: nothing but the authenticated principal takes part.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apps.keys.scopes import EVERYTHING

SubjectKind: TypeAlias = Literal["Worker", "Human", "Service", "Agent"]

EVERY_NAMESPACE = "*"

_SUBJECT_KINDS: dict[str, SubjectKind] = {
    "worker": "Worker",
    "human": "Human",
    "user": "Human",
    "service": "Service",
    "api_key": "Service",
    "agent": "Agent",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Whom authority is given to. Two subjects are the same only when kind and id are."""

    kind: SubjectKind
    id: str

    def is_worker(self, worker_id: str) -> bool:
        """Tell whether this is exactly that worker; no other kind ever is."""
        return self.kind == "Worker" and bool(worker_id) and self.id == worker_id


def subject_of(kind: str, *, identity: str, key_id: str) -> Subject:
    """Return the subject a principal acts as; without an identity it is its key id, never a wildcard.

    Raises KeyError for an unknown kind: nobody acts as somebody by default.
    """
    return Subject(kind=_SUBJECT_KINDS[kind], id=identity or key_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """An authenticated caller and everything it holds.

    `kind` is service, worker, human or agent; `identity` its own id where it has one (a worker's id, a person's);
    `worker_id` is set for a key that *is* one worker, `person_id` for somebody with an account of this instance, who
    comes in without a key, over HTTP by the session `session_id`. `collections` None means all.
    """

    kind: str
    key_id: str
    scopes: frozenset[str]
    namespaces: frozenset[str]
    identity: str = ""
    worker_id: str | None = None
    person_id: int | None = None
    session_id: str | None = None
    collections: frozenset[str] | None = None
    expires_at_ms: int | None = None
    subject: Subject = field(init=False)

    is_authenticated = True

    def __post_init__(self) -> None:
        identity = self.worker_id or self.identity
        object.__setattr__(self, "subject", subject_of(self.kind, identity=identity, key_id=self.key_id))

    def has(self, scope: str) -> bool:
        """Tell whether the scope is held: named exactly, or everything."""
        return scope in self.scopes or EVERYTHING in self.scopes

    def may_enter(self, namespace: str) -> bool:
        """Tell whether the namespace is one of this principal's."""
        return namespace in self.namespaces or EVERY_NAMESPACE in self.namespaces

    def may_touch(self, collection: str) -> bool:
        """Tell whether the collection is one of this principal's."""
        return self.collections is None or collection in self.collections

    @property
    def gives_until_ms(self) -> int | None:
        """Return when what it gives ends at the latest; a person's session bounds nothing, the person does."""
        return None if self.person_id is not None else self.expires_at_ms

    @property
    def runs_the_instance(self) -> bool:
        """Tell whether this is somebody at the console, signed in, or at the command line: no program with a key."""
        return not self.key_id

    def may_act_as_worker(self, worker_id: str) -> bool:
        """Tell whether the principal is exactly that worker."""
        return self.subject.is_worker(worker_id)

    @property
    def label(self) -> str:
        """Return how records of who did what name this principal."""
        return f"{self.subject.kind.lower()}:{self.subject.id}"


def operator(name: str) -> Principal:
    """Return the principal of whoever runs the instance from its command line, or of the instance itself."""
    return Principal(
        kind="human",
        key_id="",
        identity=name,
        scopes=frozenset({EVERYTHING}),
        namespaces=frozenset({EVERY_NAMESPACE}),
    )
