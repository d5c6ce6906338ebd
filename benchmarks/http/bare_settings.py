"""A project of bare views alone, under the same gunicorn configuration: no middleware, DRF as it comes."""

from feltsite.settings import *  # noqa: F403

MIDDLEWARE: list[str] = []
ROOT_URLCONF = "benchmarks.http.bare_views"
REST_FRAMEWORK = {"UNAUTHENTICATED_USER": None}
