"""Every setting of an instance, read once from the environment.

Not here: the variables themselves, with defaults and bounds (`environment.py`), engine limits
(`feltdb_engine/limits.py`) and the limits of each app (its own `limits.py`).
"""

import errno
import os
import re
from importlib.util import find_spec
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from apps.http import logs
from apps.keys import secret_files
from feltsite import __version__, capacity
from feltsite import environment as env

BASE_DIR = Path(__file__).resolve().parent.parent

DATA_DIR = Path(env.text("FELTDB_DATA_DIR", str(BASE_DIR / "data"))).resolve()
try:
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(DATA_DIR, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
except OSError as error:
    raise ImproperlyConfigured(
        f"FELTDB_DATA_DIR: cannot use {DATA_DIR} ({error.strerror}); name a directory this user may write to"
    ) from error


def secret_file(name: str) -> str:
    """Return the secret kept in `<data>/secrets/<name>`, made once with mode 0600."""
    try:
        return secret_files.read_or_make(secret_files.folder(DATA_DIR) / name)
    except secret_files.SecretUnusable as error:
        raise ImproperlyConfigured(str(error)) from None


FELTDB_VERSION = __version__
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.text("DJANGO_SECRET_KEY") or secret_file("django_secret_key")
# Peppers of key digests that the environment names; empty where they are files of this instance (apps/keys/peppers.py).
KEY_PEPPER = env.text("FELTDB_KEY_PEPPER")
# Seeds that sign grants, for hosts that share one database; by default each instance keeps its own ring in secrets/.
GRANT_KEYS = env.text("FELTDB_GRANT_KEYS")
# How long `manage.py audit prune` keeps events unless told otherwise.
AUDIT_RETENTION_DAYS = env.whole("FELTDB_AUDIT_RETENTION_DAYS")

# How long a grant is kept after its end; its id is used for ever.
GRANT_RETENTION_DAYS = env.whole("FELTDB_GRANT_RETENTION_DAYS")
KEY_ENVIRONMENT = env.text("FELTDB_KEY_ENVIRONMENT")
if not re.fullmatch(r"[a-z0-9]{1,16}", KEY_ENVIRONMENT) or KEY_ENVIRONMENT == "session":
    raise ImproperlyConfigured("FELTDB_KEY_ENVIRONMENT is 1 to 16 of a-z and 0-9, and not `session`")
HOST = env.text("HOST")
PORT = env.whole("PORT")
PROBES_PORT = env.whole("FELTDB_PROBES_PORT")
if PROBES_PORT == PORT:
    raise ImproperlyConfigured("FELTDB_PROBES_PORT must be another port than PORT")
ALLOWED_HOSTS = env.listed("ALLOWED_HOSTS")
# Pages of other origins: by configuration only, without cookies, and never for the console.
CORS_ALLOWED_ORIGINS = env.listed("FELTDB_CORS_ORIGINS")
for _origin in CORS_ALLOWED_ORIGINS:
    if not re.fullmatch(r"https?://[^/?#\s@]+", _origin):
        raise ImproperlyConfigured(f"FELTDB_CORS_ORIGINS: {_origin!r} is no origin; write https://app.example.com")
CORS_URLS_REGEX = r"^/(?!admin/)"
CORS_ALLOW_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
CORS_ALLOW_HEADERS = [
    "authorization",
    "content-type",
    "feltdb-namespace",
    "feltdb-numbers",
    "feltdb-protocol",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "last-event-id",
    "traceparent",
    "x-request-id",
]
CORS_EXPOSE_HEADERS = [
    "ETag",
    "FeltDB-Revision",
    "Idempotent-Replay",
    "Location",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "Retry-After",
    "X-Request-ID",
]
CSRF_TRUSTED_ORIGINS = env.listed("CSRF_TRUSTED_ORIGINS")

CAPACITY = capacity.of(os.environ)
IN_FLIGHT_PERMITS = CAPACITY.permits
CONSOLE_PERMITS = capacity.CONSOLE_PERMITS
SIGN_IN_PERMITS = CAPACITY.sign_ins
FEED_MAX_WAITING = CAPACITY.feed_waiting
FEED_MAX_STREAMS = CAPACITY.streams
STREAM_MAX_LIFE_S = env.whole("FELTDB_STREAM_MAX_LIFE_S")
RATE_LIMIT = env.whole("FELTDB_RATE_LIMIT")
REQUEST_DEADLINE_MS = env.whole("FELTDB_REQUEST_DEADLINE_MS")
WORKER_CONCURRENCY = env.whole("WORKER_CONCURRENCY")
ACCESS_LOG = env.flag("ACCESS_LOG")

MISTYPED = env.mistyped()  # told by `manage.py setup`
EXTRA_APPS = env.listed("FELTDB_APPS")
for _app in EXTRA_APPS:
    if not _app.partition(".")[0].isidentifier() or find_spec(_app.partition(".")[0]) is None:
        raise ImproperlyConfigured(
            f"FELTDB_APPS: there is no Python package {_app!r}; it is looked for beside manage.py and on PYTHONPATH"
        )
WORK_RETENTION_DAYS = env.whole("FELTDB_WORK_RETENTION_DAYS")
# What compaction keeps of every store's history, and how often the worker looks whether some can go.
HISTORY_DAYS = env.whole("FELTDB_HISTORY_DAYS")
HISTORY_MIB = env.whole("FELTDB_HISTORY_MIB")
HISTORY_OPERATIONS = env.whole("FELTDB_HISTORY_OPERATIONS")
COMPACT_EVERY_MINUTES = env.whole("FELTDB_COMPACT_EVERY_MINUTES")
BACKUP_DIR = Path(env.text("FELTDB_BACKUP_DIR", str(DATA_DIR / "backups"))).resolve()
BACKUP_MAX_AGE_HOURS = env.whole("FELTDB_BACKUP_MAX_AGE_HOURS")
# `@task` functions of installed apps become durable work (package django-tasks); any queue name will do.
TASKS = {"default": {"BACKEND": "apps.workloads.task_backend.FeltDBBackend", "QUEUES": []}}
WEBHOOK_SECRETS = env.listed("FELTDB_WEBHOOK_SECRETS") or [secret_file("webhook_secret_v1")]
WEBHOOK_LOCAL_TARGETS = env.listed("FELTDB_WEBHOOK_LOCAL_TARGETS")

INSTALLED_APPS = [
    *EXTRA_APPS,
    "apps.operations",
    "apps.triggers",
    "apps.workloads",
    "apps.state",
    "apps.keys",
    "apps.http",
    "apps.operations.console.config.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "corsheaders",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "apps.http.middleware.RequestIdMiddleware",
    "apps.operations.middleware.ObservationMiddleware",
    "apps.http.middleware.JSONErrorsMiddleware",
    "apps.http.middleware.GateMiddleware",
    "apps.operations.middleware.AdmissionMiddleware",
    "apps.operations.console.security.ConsoleSecurityMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "apps.http.console.ConsoleSession",
    "django.middleware.common.CommonMiddleware",
    "apps.http.console.ConsoleCsrf",
    "apps.http.console.ConsoleAuthentication",
    "apps.http.console.ConsoleMessages",
    "apps.http.console.ConsoleFrames",
    "apps.http.paths.RawPathMiddleware",
]

if CORS_ALLOWED_ORIGINS:
    MIDDLEWARE.insert(1, "corsheaders.middleware.CorsMiddleware")

ROOT_URLCONF = "feltsite.urls"
WSGI_APPLICATION = "feltsite.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_database_url = env.text("DATABASE_URL", f"sqlite:///{DATA_DIR / 'control.sqlite3'}")
# Neither message repeats the URL: it may hold a password.
if not _database_url.startswith(("sqlite://", "postgres://", "postgresql://")):
    raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:/// or postgres://")
try:
    DATABASES = {"default": environ.Env.db_url_config(_database_url)}
except ValueError:
    raise ImproperlyConfigured("DATABASE_URL is no usable URL; write postgres://user@host:port/database") from None
DATABASES["default"]["CONN_MAX_AGE"] = None
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # One writer, forced at each commit; IMMEDIATE so that a transaction never fails half way for the lock; in turn.
    DATABASES["default"]["ENGINE"] = "feltsite.sqlite"
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 10,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
    }
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    # A host that does not answer is given up in seconds: requests have deadlines. A URL may say otherwise.
    DATABASES["default"]["ENGINE"] = "feltsite.postgres"
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 3,
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **DATABASES["default"].get("OPTIONS", {}),
    }
# Test databases carry the process id, so that two test runs never share one.
# SQLite's lie in a file like the real one: threads and processes share it, and WAL, locks and forcing are as they are.
DATABASES["default"]["TEST"] = {
    "NAME": f"test_feltdb_{os.getpid()}"
    if "postgres" in DATABASES["default"]["ENGINE"]
    else str(DATA_DIR / f"test-{os.getpid()}.sqlite3")
}

AUTH_USER_MODEL = "keys.Operator"
PASSWORD_HASHERS = ["apps.keys.passwords.BoundedArgon2PasswordHasher"]
PASSWORD_HASHES_AT_ONCE = env.whole("FELTDB_PASSWORD_HASHES_AT_ONCE")
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

# The console speaks plain HTTP on the loopback address by default; HTTPS=true where a proxy ends TLS.
HTTPS = env.flag("HTTPS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_ENGINE = "apps.keys.console_store"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 8 * 3600
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.keys.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["apps.keys.permissions.ScopePermission"],
    "DEFAULT_RENDERER_CLASSES": ["apps.http.renderers.StrictJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.http.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "apps.http.negotiation.JSONOnly",
    "DEFAULT_SCHEMA_CLASS": "apps.http.openapi.RouteSchema",
    "EXCEPTION_HANDLER": "apps.keys.audit.refusals.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "FeltDB",
    "VERSION": "1",
    "DESCRIPTION": "Durable JSON state, an ordered feed of its changes, and the work that changes call for.",
    "OAS_VERSION": "3.1.0",
    # The order of the live reference: what is asked for first comes first.
    "TAGS": [
        {"name": "State", "description": "Records, transactions, queries, the feed of changes, export and import"},
        {"name": "Contract", "description": "What records are held to"},
        {"name": "Triggers", "description": "Which change starts which work"},
        {"name": "Workloads", "description": "Work: asked for, claimed under a lease, reported, retried"},
        {"name": "Schedules", "description": "Work at the due times of a cron expression"},
        {"name": "Workers", "description": "Programs that do work, registered"},
        {"name": "Capabilities", "description": "Stored programs that our workers run"},
        {"name": "Keys", "description": "Who may call, where, and what they may do"},
        {"name": "Grants", "description": "Signed authority, handed on"},
        {"name": "Sessions", "description": "People signed in over the API"},
        {"name": "Audit", "description": "Who did what"},
        {"name": "Operations", "description": "Whether the instance is well"},
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1",
    "PREPROCESSING_HOOKS": ["apps.http.openapi.canonical_only"],
    "POSTPROCESSING_HOOKS": ["apps.http.openapi.add_components"],
    "PATH_CONVERTER_OVERRIDES": {"segment": {"type": "string"}},
}

LOGGING = logs.configuration(env.text("LOG_FORMAT").lower(), env.text("LOG_LEVEL").upper())
