"""What an instance needs before it can serve: schema, default namespace, first operator, first key.

Safe to run at every start: what exists is left alone, and secrets are shown only by the run that made them.
"""

import secrets
import string
from dataclasses import dataclass

from django.db import transaction

from apps.keys.models import ApiKey, Operator
from apps.keys.principal import operator
from apps.keys.services import ensure_namespace, issue_key
from apps.operations.services.roles import ensure_roles

DEFAULT_NAMESPACE = "default"
FIRST_OPERATOR = "admin"
FIRST_KEY_NAME = "first key"
PASSWORD_ALPHABET = string.ascii_letters + string.digits
PASSWORD_LENGTH = 20
# Everything the tour, the demo and an application need; not the keys and not the operators' side.
FIRST_KEY_SCOPES = (
    "state:read",
    "state:write",
    "events:read",
    "triggers:read",
    "triggers:write",
    "workload:create",
    "workload:read",
    "workload:claim",
    "workload:execute",
    "workload:cancel",
    "workload:retry",
    "worker:manage",
)


@dataclass(frozen=True, kw_only=True)
class FirstSecrets:
    """Secrets made by this run; None for what was there already. They are stored nowhere in clear."""

    operator_name: str
    operator_password: str | None
    key_secret: str | None


def prepare_instance() -> FirstSecrets:
    """Create what is missing, in one transaction, and return the new secrets.

    The caller has applied the migrations. An operator is made only where no account exists, a key only where
    none was ever issued.
    """
    with transaction.atomic():
        ensure_roles()
        ensure_namespace(DEFAULT_NAMESPACE)
        password = None
        if not Operator.objects.exists():
            password = "".join(secrets.choice(PASSWORD_ALPHABET) for _ in range(PASSWORD_LENGTH))
            Operator.objects.create_superuser(FIRST_OPERATOR, password=password)
        key_secret = None
        if not ApiKey.objects.exists():
            issued = issue_key(
                name=FIRST_KEY_NAME,
                namespaces=[DEFAULT_NAMESPACE],
                scopes=FIRST_KEY_SCOPES,
                issuer=operator("setup"),
            )
            key_secret = issued.secret
    return FirstSecrets(operator_name=FIRST_OPERATOR, operator_password=password, key_secret=key_secret)
