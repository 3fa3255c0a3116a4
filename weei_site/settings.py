"""Settings. Every deployment choice is one environment variable, read here and nowhere else (docs/operations.md).

Without any variable this is the embedded set-up: SQLite, files under var/ and a local Valkey. The same code runs on
PostgreSQL, Redis and S3: no other module asks which of the two it is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def env(name: str, default: str) -> str:
    return os.environ.get(name) or default


def env_list(name: str, default: str) -> list[str]:
    return [part.strip().rstrip("/") for part in env(name, default).split(",") if part.strip()]


VAR_DIR = Path(env("VAR_DIR", str(BASE_DIR / "var"))).resolve()
VAR_DIR.mkdir(parents=True, exist_ok=True)


def _secret_key() -> str:
    """The key from SECRET_KEY, else one drawn once and kept beside the data."""
    if key := os.environ.get("SECRET_KEY"):
        return key
    path = VAR_DIR / "secret_key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(descriptor, "w") as file:
        file.write(key := secrets.token_urlsafe(50))
    return key


SECRET_KEY = _secret_key()
DEBUG = env("DEBUG", "0") == "1"
CODE_VERSION = "0.1.0"  # In every ledger: raise it when a change could change a checkpoint.

# --- Where the site is reached: the only source of hosts, origins, cookie flags and links ---------------------------
PORT = int(env("PORT", "8000"))
PUBLIC_URLS = env_list("PUBLIC_URLS", f"http://localhost:{PORT},http://127.0.0.1:{PORT}")
PUBLIC_URL = PUBLIC_URLS[0]
ALLOWED_HOSTS = sorted({urlsplit(url).hostname or "" for url in PUBLIC_URLS})
CSRF_TRUSTED_ORIGINS = PUBLIC_URLS
_https = all(url.startswith("https://") for url in PUBLIC_URLS)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
# Two instances on one host name but other ports must not share cookies; browsers do not separate cookies by port.
_cookie_suffix = "" if _https else f"_{urlsplit(PUBLIC_URL).port or 80}"
SESSION_COOKIE_NAME = ("__Host-" if _https else "") + f"weei_session{_cookie_suffix}"
CSRF_COOKIE_NAME = ("__Host-" if _https else "") + f"weei_csrf{_cookie_suffix}"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env("TRUST_PROXY", "0") == "1" else None
SECURE_SSL_REDIRECT = False  # The proxy in front does it; a plain-http LAN is a supported way to run.
SILENCED_SYSTEM_CHECKS = ["security.W008"]  # … which is what this check asks about.
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _https
SECURE_REFERRER_POLICY = "same-origin"  # An invitation link is a secret and must not leak in a Referer.
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024  # The body gate decides, by address; this must not be less.

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "ninja",
    "checkpoints",
    "peers",
    "diagnostics",
    "jobs",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "weei_site.middleware.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "weei_site.middleware.WeeiErrors",
    "weei_site.middleware.NoteRoute",
]
ROOT_URLCONF = "weei_site.urls"
ASGI_APPLICATION = "weei_site.asgi.application"
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
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "job-list"
LOGOUT_REDIRECT_URL = "login"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR_DIR / "static"
REFERENCE_MODELS_DIR = BASE_DIR / "reference_models"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Database ---------------------------------------------------------------------------------------------------------
DATABASES = {"default": dj_database_url.parse(env("DATABASE_URL", f"sqlite:///{VAR_DIR / 'weei.sqlite3'}"))}
DATABASES["default"].setdefault("OPTIONS", {})
_ENGINE_OPTIONS: dict[str, dict[str, object]] = {
    "django.db.backends.sqlite3": {
        # IMMEDIATE: a transaction that will write waits for its turn at the start instead of failing in the middle.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;",
    },
    "django.db.backends.postgresql": {
        # A database that is away must not gather threads that wait for it: the rest is refused at once, as 503.
        # Attempts to connect again lie further and further apart; after reconnect_timeout the next request begins anew,
        # so that a long outage is not followed by as long a wait.
        "pool": {"min_size": 1, "max_size": 8, "timeout": 5, "max_waiting": 64, "reconnect_timeout": 2}
    },
}
DATABASES["default"]["OPTIONS"].update(_ENGINE_OPTIONS.get(str(DATABASES["default"]["ENGINE"]), {}))
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A thread keeps its connection: to open one costs more than a query. On PostgreSQL the pool keeps them.
    DATABASES["default"]["CONN_MAX_AGE"] = None

# --- Redis: hints, the task queue and what may be lost ------------------------------------------------------------
# A unix socket's path may have 107 bytes at most, so the default lies in a short folder of its own.
RUN_DIR = Path(env("RUN_DIR", f"/tmp/weei-{hashlib.sha256(str(VAR_DIR).encode()).hexdigest()[:8]}"))
REDIS_URL = env("REDIS_URL", f"unix://{RUN_DIR / 'valkey.sock'}")


def redis_url(database: int) -> str:
    """REDIS_URL with a database number, as redis-py and channels_redis read it."""
    if REDIS_URL.startswith("unix://"):
        return f"{REDIS_URL}?db={database}"
    return f"{REDIS_URL.rstrip('/')}/{database}"


CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [redis_url(1)]},
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": redis_url(2),
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
}
QUEUE_URL = redis_url(0)  # The broker's database, for those who only look: readiness, the length of the queues.
CELERY_BROKER_URL = (
    REDIS_URL.replace("unix://", "redis+socket://") + "?virtual_host=0"
    if REDIS_URL.startswith("unix://")
    else redis_url(0)
)
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = False  # The sweeper is the only retry; the broker promises nothing.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_CONNECTION_TIMEOUT = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 1, "socket_timeout": 5, "max_retries": 0}
CELERY_TASK_DEFAULT_QUEUE = "fast"
CELERY_TASK_ROUTES = {f"jobs.tasks.{name}": "slow" for name in ("prepare", "evaluate", "package", "collect")}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

# --- Files ------------------------------------------------------------------------------------------------------------
STORAGE_URL = env("STORAGE_URL", f"file://{VAR_DIR / 'artifacts'}")
ARTIFACT_REDIRECT_S = int(env("ARTIFACT_REDIRECT_S", "0"))
KEEP_UPDATES = env("KEEP_UPDATES", "0") == "1"
UPLOAD_QUOTA_BYTES = int(env("UPLOAD_QUOTA_BYTES", str(20 * 1024**3)))
MIN_FREE_FRACTION = float(env("MIN_FREE_FRACTION", "0.05"))

# --- The engine's constants (docs/engine.md) ----------------------------------------------------------------------
LEASE_SECONDS = float(env("LEASE_SECONDS", "30"))
SWEEP_SECONDS = float(env("SWEEP_SECONDS", "5"))
SWEEP_GAP_SECONDS = float(env("SWEEP_GAP_SECONDS", "10"))
ASSIGNMENT_TIMEOUT_MINUTES = float(env("ASSIGNMENT_TIMEOUT_MINUTES", "30"))
STALL_MINUTES = float(env("STALL_MINUTES", "10"))
STRAGGLER_FLOOR_SECONDS = float(env("STRAGGLER_FLOOR_SECONDS", "30"))
MERGE_LEASE_SECONDS = float(env("MERGE_LEASE_SECONDS", "15"))
MERGE_TRIES = int(env("MERGE_TRIES", "5"))
TASK_TRIES = int(env("TASK_TRIES", "3"))
ITEM_ERRORS = int(env("ITEM_ERRORS", "3"))
DEAL_ERRORS = int(env("DEAL_ERRORS", "3"))
MAX_PARTS = int(env("MAX_PARTS", "256"))
INVITATION_DAYS = timedelta(days=float(env("INVITATION_DAYS", "7")))
UNDO_DELETE = timedelta(minutes=float(env("UNDO_DELETE_MINUTES", "10")))
PACKAGE_DAYS = timedelta(days=float(env("PACKAGE_DAYS", "7")))
USER_TOKEN_DAYS = timedelta(days=float(env("USER_TOKEN_DAYS", "30")))

# --- What a module may use on the server ------------------------------------------------------------------------------
MODULE_CPU_SECONDS = float(env("MODULE_CPU_SECONDS", "60"))
MODULE_WALL_SECONDS = float(env("MODULE_WALL_SECONDS", "600"))
MODULE_MEMORY_BYTES = int(env("MODULE_MEMORY_BYTES", str(1024**3)))

# --- What operators see (docs/operations.md) -------------------------------------------------------------------------
METRICS_TOKEN = env("METRICS_TOKEN", "")
METRICS_PORT = int(env("METRICS_PORT", "0"))  # Of a worker; web processes answer /metrics at their own port.
DRAIN_SECONDS = float(env("DRAIN_SECONDS", "0"))
LOG_FORMAT = env("LOG_FORMAT", "line")
if LOG_FORMAT not in ("line", "json"):
    raise ImproperlyConfigured(f"LOG_FORMAT must be line or json; found {LOG_FORMAT!r}.")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "weei_site.logs.LineFormatter"},
        "json": {"()": "weei_site.logs.JsonFormatter"},
    },
    "filters": {"count": {"()": "weei_site.metrics.CountLines"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["count"]}},
    "root": {"handlers": ["console"], "level": env("LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        # uvicorn has set up a format of its own by now, and --no-access-log, which naming its parent would undo.
        "uvicorn": {"handlers": [], "propagate": True},
        "uvicorn.access": {"handlers": [], "propagate": False},
    },
}
