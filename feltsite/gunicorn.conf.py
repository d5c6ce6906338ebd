"""How gunicorn serves FeltDB.

Threads, because requests wait for the disk; never preloaded, because a store is never shared by a fork.
"""

import os

bind = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '8000')}"
worker_class = "gthread"
workers = int(os.environ.get("WEB_WORKERS", "2"))
threads = int(os.environ.get("WEB_THREADS", "16"))
preload_app = False
timeout = 60
graceful_timeout = 15
keepalive = 30
max_requests = 0
limit_request_line = 8190
accesslog = "-" if os.environ.get("ACCESS_LOG") else None
errorlog = "-"
loglevel = os.environ.get("LOG_LEVEL", "info").lower()
proc_name = "feltdb"


def post_worker_init(worker: object) -> None:
    """Let the server's own refusals be the envelope too, not a page."""
    import gunicorn.util

    from apps.http import wire

    gunicorn.util.write_error = wire.write_error
