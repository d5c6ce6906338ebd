"""The settings of a server with the probe routes, for `test_served.py`. Its environment names the data directory."""

from feltsite.settings import *  # noqa: F403

ROOT_URLCONF = "tests.http.probe_urls"
