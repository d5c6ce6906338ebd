"""`manage.py probes`: health and metrics on a socket and in a process of their own."""

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Thin: becomes gunicorn, with the routes of probes alone."""

    help = (
        "Answer /health, /health/ready, /ready, /metrics and /v1/status on FELTDB_PROBES_PORT, and nothing else, in a "
        "process of its own: however busy the server is, or where it does not run at all. Ends at once with exit code "
        "0 where no port is set."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Become the server of probes."""
        if not settings.PROBES_PORT:
            self.stdout.write("FELTDB_PROBES_PORT is not set: health and metrics are on the server's own port alone.")
            return
        os.environ["PORT"], os.environ["FELTDB_PROBES_PORT"] = str(settings.PROBES_PORT), "0"
        os.environ["WEB_WORKERS"] = "1"
        os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.probe_settings"
        configuration = str(settings.BASE_DIR / "feltsite" / "probes.conf.py")
        os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "--config", configuration, "feltsite.wsgi"])  # noqa: S606
