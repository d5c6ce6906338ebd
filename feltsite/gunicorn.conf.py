"""How gunicorn serves FeltDB.

Threads, because requests wait for the disk; never preloaded, because a store is never shared by a fork. Requests
are gathered whole before they get a thread (`serving/`).
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from django.core.exceptions import ImproperlyConfigured

from apps.http import logs
from feltsite import capacity
from feltsite import environment as env

try:
    _capacity = capacity.of(os.environ)
    bind = env.text("HOST") + ":" + str(env.whole("PORT"))
    worker_connections = env.whole("FELTDB_MAX_CONNECTIONS")
    env.whole("FELTDB_REQUEST_DEADLINE_MS"), env.whole("FELTDB_CONNECTION_DEADLINE_MS")  # refused here, in one line
    loglevel = env.text("LOG_LEVEL").lower()
    logconfig_dict = logs.configuration(env.text("LOG_FORMAT").lower(), loglevel.upper())
except ImproperlyConfigured as error:
    sys.exit(f"gunicorn: {error}")

worker_class = "feltsite.serving.worker.WholeRequestWorker"
workers = _capacity.processes
threads = _capacity.threads
preload_app = False
timeout = 60
graceful_timeout = 15
keepalive = 30
max_requests = 0
limit_request_line = 8190
sendfile = False  # answers go out through the worker's own outbox
accesslog = None  # the application logs each request as one event
logger_class = "feltsite.serving.errors_only.ErrorsOnly"
control_socket_disable = True  # stopping is by signal; nothing outside the data directory
proc_name = "feltdb"


def on_starting(server: Any) -> None:
    """Let an instance start counting at zero: drop the counts of processes that are gone."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "feltsite.settings")
    from apps.http import measures
    from apps.operations.services.supervised import end_with_supervisor

    end_with_supervisor()
    measures.clean()


def post_worker_init(worker: Any) -> None:
    """Let the server's own refusals be the envelope too, look after connections, and give threads shorter turns.

    The thread that takes connections in must not wait long for its own turn.
    """
    import gunicorn.util

    from apps.http import wire
    from apps.keys import bookkeeping
    from apps.operations import connections
    from feltsite.serving import answering

    connections.look_after_them()
    gunicorn.util.write_error = wire.write_error
    gunicorn.util.http_date = answering.http_date
    worker.bookkeeping = bookkeeping.Writer()
    worker.bookkeeping.start()
    sys.setswitchinterval(0.0005)


def worker_exit(server: Any, worker: Any) -> None:
    """Let what requests have noted be written before the process goes."""
    writer = getattr(worker, "bookkeeping", None)
    if writer is not None:
        writer.stop(timeout_s=2.0)
