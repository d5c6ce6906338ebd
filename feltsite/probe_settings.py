"""The settings of the process that answers probes alone (`manage.py probes`): the instance's own, with fewer routes."""

from feltsite.settings import *  # noqa: F403

ROOT_URLCONF = "feltsite.probe_urls"
