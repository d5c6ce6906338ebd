"""Log lines: one event a line, with the request's id, and never a secret. For server, worker and commands alike.

`text` is for people, `json` one JSON object a line. What an event says beyond its message comes as `extra=`; those
members stand beside the message in both forms.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from apps.http import request_id as ambient

_KEY = re.compile(r"\b(fdb_[A-Za-z0-9]+_[A-Za-z0-9]+)_[A-Za-z0-9_-]{8,}")
_NAMED = re.compile(
    r"(?i)\b(bearer\s+|(?:password|passwd|secret|token|api_key|access_token|sessionid|csrftoken)[\"']?\s*[=:]\s*)"
    r"(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s\"'&,;]{6,})"
)
_IN_URL = re.compile(r"(://[^/\s:@]+:)[^/\s@]+@")
_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "request_id", "taskName"}


def redacted(text: str) -> str:
    """Return `text` with keys, bearer tokens, passwords and the like blotted out; a key keeps its id."""
    text = _KEY.sub(r"\1_[REDACTED]", text)
    return _IN_URL.sub(r"\1[REDACTED]@", _NAMED.sub(r"\1[REDACTED]", text))


def members(record: logging.LogRecord) -> dict[str, Any]:
    """Return what came with the event as `extra=`."""
    return {name: value for name, value in record.__dict__.items() if name not in _PLAIN and not name.startswith("_")}


class RequestId(logging.Filter):
    """Puts the request's id on every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Never drops a record."""
        if not hasattr(record, "request_id"):
            record.request_id = ambient.current()
        return True


class OnlyFailures(logging.Filter):
    """Drops Django's line for each answer of 500 and above that is a refusal: under overload they are many.

    The access log has them, and metrics count them; an exception is a failure and stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what has an exception, and what is no answer."""
        return record.exc_info is not None or getattr(record, "status_code", 500) == 500


class TextFormatter(logging.Formatter):
    """`time LEVEL logger message  name=value ...  [request id]`; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        parts = [_instant(record), record.levelname, record.name, record.getMessage()]
        parts += [f"{name}={value}" for name, value in members(record).items() if not isinstance(value, dict | tuple)]
        if getattr(record, "request_id", ""):
            parts.append(f"[{record.request_id}]")  # type: ignore[attr-defined]
        line = " ".join(parts).replace("\n", "\\n")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redacted(line)


class OneLineJson(JsonFormatter):
    """`{"at", "level", "logger", "message", "request_id", ...}`; a traceback is a member."""

    def __init__(self) -> None:
        super().__init__("%(message)s", json_ensure_ascii=False, json_default=str)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Put the fixed members first, then those of the event; every text is redacted before it is quoted."""
        log_data.update(at=_instant(record), level=record.levelname.lower(), logger=record.name)
        log_data["message"] = redacted(record.getMessage())
        if getattr(record, "request_id", ""):
            log_data["request_id"] = record.request_id  # type: ignore[attr-defined]
        for name, value in members(record).items():
            if value is None or isinstance(value, bool | int | float):
                log_data[name] = value
            elif not isinstance(value, tuple):
                log_data[name] = redacted(str(value))
        if record.exc_info:
            log_data["exception"] = redacted("".join(self.formatException(record.exc_info)))


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configuration(form: str, level: str) -> dict[str, Any]:
    """Return the `dictConfig` of a process: everything to standard error, in one form."""
    formatter = {"text": TextFormatter, "json": OneLineJson}[form]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request_id": {"()": RequestId}, "only_failures": {"()": OnlyFailures}},
        "formatters": {"line": {"()": formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": sys.stderr,
                "formatter": "line",
                "filters": ["request_id"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # gunicorn and Django hang handlers of their own on theirs; one stream in one form is enough.
            "gunicorn.error": {"handlers": [], "propagate": True, "level": level},
            "gunicorn.access": {"handlers": [], "propagate": False, "level": "CRITICAL"},
            # What a stranger's Host or path can bring about is a refusal; with a stack for each it could fill a disk.
            "django.security": {"handlers": [], "propagate": True, "level": "CRITICAL"},
            "django.security.csrf": {"handlers": [], "propagate": True, "level": level},
            "django.request": {"handlers": [], "propagate": True, "level": "ERROR", "filters": ["only_failures"]},
        },
    }
