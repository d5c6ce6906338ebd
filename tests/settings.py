"""The settings of the tests: the instance's own, over a data directory that is thrown away.

Whatever FELTDB_DATA_DIR says, no test touches the instance of whoever runs them. FELTDB_TEST_DATABASE=postgres runs
the tests on the PostgreSQL that FELTDB_TEST_POSTGRES_URL names.
"""

import atexit
import os
import shutil
import tempfile

_data_dir = tempfile.mkdtemp(prefix="feltdb-test-")
_owner = os.getpid()


def _throw_away() -> None:
    if os.getpid() == _owner:
        shutil.rmtree(_data_dir, ignore_errors=True)


atexit.register(_throw_away)
os.environ["FELTDB_DATA_DIR"] = _data_dir
if os.environ.get("FELTDB_TEST_DATABASE") == "postgres":
    os.environ["DATABASE_URL"] = os.environ.get("FELTDB_TEST_POSTGRES_URL", "postgres://root@127.0.0.1:5432/test")

from feltsite.settings import *  # noqa: E402, F403

ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
PASSWORD_HASHERS = ["tests.hashers.CheapArgon2"]

# Tests that send many requests at once mean to race them; those of admission make their own.
IN_FLIGHT_PERMITS = 64

# Every client of a test loads the middleware anew: static files are looked for when asked for, not all at each loading.
WHITENOISE_AUTOREFRESH = True
