"""FeltDB as it is, with the bare views beside it in the same processes."""

from feltsite.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.http.beside_urls"
