"""The console's sessions as they lie in the database: under a digest of what the browser's cookie says.

So a copy of the database opens nobody's session. Django's own store keeps the cookie's text; of it only the name of the
row differs. Not here: the bearer sessions of `/v1` (`sessions/`), whose digest is kept as well.
"""

import hashlib
from typing import Any

from django.contrib.sessions.backends import db
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone


def name_of(session_key: str) -> str:
    """Return the name of the row of the session that the cookie opens: 160 bits, as wide as Django's column."""
    return hashlib.blake2b(session_key.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


class SessionStore(db.SessionStore):
    """Django's store over names. Its class name is part of what session data is signed with."""

    def _get_session_from_db(self) -> Any:
        name = name_of(self.session_key or "")
        found = self.model.objects.filter(session_key=name, expire_date__gt=timezone.now()).first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        """Tell whether there is a session of that key."""
        return super().exists(name_of(session_key))

    def create_model_instance(self, data: Any) -> Any:
        """Return the row to be stored."""
        row = super().create_model_instance(data)
        row.session_key = name_of(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """End the session of that key, or this one."""
        ending = session_key or self.session_key
        if ending is not None:
            super().delete(name_of(ending))

    async def acreate_model_instance(self, data: Any) -> Any:
        """Refuse: the asynchronous half of Django's store would keep the cookie's text."""
        raise ImproperlyConfigured("the console's sessions are not for asynchronous views")
