"""People who come in over HTTP: signing in, the short bearer session that follows, and how often anybody may try.

    models.py      sessions, as digests; counts of failed attempts
    attempts.py    the limits on failing, for every door where a password is asked for
    services.py    sign in, sign out, and whom a session's token is

The console's cookie is another thing and opens nothing here; a session of these opens nothing there.
"""
