"""The server's logger without its access log: the application logs each request, and only where it is asked to."""

from gunicorn.glogging import Logger


class ErrorsOnly(Logger):  # type: ignore[misc]
    """Puts nothing together for a line about each request: with `logconfig_dict` set, the base does, to drop it."""

    access_log_enabled = False
