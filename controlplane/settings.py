"""All settings, from the environment or with a safe default. Every ``SWITCHYARD_*`` name is read here.

``SettingDoc`` is what docs/settings.md says of it. After a change: manage.py settings_page > docs/settings.md
"""

import logging
import sys
from pathlib import Path
from typing import cast

from celery.schedules import crontab

from controlplane.config import environment, smtp_settings
from controlplane.config.setting_docs import SettingDoc
from controlplane.observability.log_config import configuration
from controlplane.supervision.environment import socket_path
from routing.contract.log_format import FORMATS, Format, default_format

BASE_DIR = Path(__file__).resolve().parent.parent

# Where data live: db.sqlite3, secret_key, redis/, logs/, proxy/, static/.
DATA_DIR = environment.folder(
    "SWITCHYARD_DATA_DIR",
    BASE_DIR / "var",
    about=SettingDoc(
        "data folder: database, secret key, Redis socket, logs, static files",
        "/var/lib/switchyard",
        "`var/` beside `manage.py`",
    ),
)

DEBUG = environment.flag(
    "SWITCHYARD_DEBUG", about=SettingDoc("errors show source code; refused for public hosts", "1")
)
ALLOWED_HOSTS = environment.listing(
    "SWITCHYARD_ALLOWED_HOSTS",
    "127.0.0.1,localhost,[::1]",
    about=SettingDoc("host names that pages and API accept", "fleet.example.com,127.0.0.1"),
)
SECRET_KEY = environment.secret_key(
    "SWITCHYARD_SECRET_KEY",
    DATA_DIR / "secret_key",
    about=SettingDoc(
        "signs sessions and keys the hashes of API tokens. A new one ends all sessions and API tokens; "
        "client keys and passwords stay valid. All processes need the same one. A weak one is refused for "
        "public hosts",
        "9T1mQ…",
        "a random one, stored in the data folder",
    ),
)
environment.refuse_weak_secret(SECRET_KEY, ALLOWED_HOSTS)
SECRET_KEY_FALLBACKS = environment.listing(
    "SWITCHYARD_FORMER_SECRET_KEYS",
    "",
    about=SettingDoc(
        "former values of `SWITCHYARD_SECRET_KEY`, for an overlap: sessions and API tokens made under them "
        "stay valid, and a token is hashed anew when it is used. Remove them once all have been",
        "9T1mQ…",
    ),
)
environment.refuse_public_debug(DEBUG, ALLOWED_HOSTS)

# The dashboard is behind TLS: cookies are sent over https only.
TLS = environment.flag(
    "SWITCHYARD_TLS",
    about=SettingDoc(
        "TLS is terminated in front of the web process: cookies need https. Name the reverse proxy in "
        "`SWITCHYARD_TRUSTED_PROXIES` too",
        "1",
    ),
)
TRUSTED_PROXIES = environment.trusted_proxies(
    "SWITCHYARD_TRUSTED_PROXIES",
    about=SettingDoc(
        "reverse proxies in front of the web process, by the addresses from which they connect; `unix` is "
        "whoever uses a Unix socket. Their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, nobody "
        "else's are",
        "127.0.0.1,10.0.3.0/24",
        "none",
    ),
)
HSTS_S = environment.whole_number(
    "SWITCHYARD_HSTS_S",
    365 * 24 * 3600,
    0,
    10 * 365 * 24 * 3600,
    about=SettingDoc(
        "with `SWITCHYARD_TLS`: for how many seconds browsers use https only for this host name (HSTS); `0`: "
        "not told, which does not undo what browsers were told",
        "3600",
    ),
)
# Shown on pages and in examples: where clients send inference requests.
DEFAULT_PROXY_URL = "http://127.0.0.1:8080"
PROXY_URL = environment.http_url(
    "SWITCHYARD_PROXY_URL",
    DEFAULT_PROXY_URL,
    about=SettingDoc(
        "base URL for inference requests, as shown on pages and in examples", "https://models.example.com"
    ),
)

# Where people reach the dashboard: links in notifications of alerts lead there.
DASHBOARD_URL = environment.public_url(
    "SWITCHYARD_DASHBOARD_URL",
    about=SettingDoc(
        "base URL of the dashboard, for links in [notifications of alerts](alerts.md)",
        "https://switchyard.example.com",
    ),
)

# --- E-mail: notifications of alerts (controlplane/alerts/) ---
_SMTP = smtp_settings.smtp_server(
    "SWITCHYARD_SMTP_URL",
    about=SettingDoc(
        "mail server for [notifications of alerts](alerts.md): `smtps://` is TLS from the start, "
        "`smtp+starttls://` turns to TLS, `smtp://` has none; user and password are percent-encoded",
        "smtp+starttls://switchyard:p%40ss@mail.example.com:587",
        "no e-mail is sent",
    ),
)
EMAIL_HOST, EMAIL_PORT = _SMTP.host, _SMTP.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _SMTP.user, _SMTP.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _SMTP.starttls, _SMTP.tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = environment.text(
    "SWITCHYARD_EMAIL_FROM",
    "switchyard@localhost",
    about=SettingDoc("sender of e-mails", "Switchyard <switchyard@example.com>"),
)

# --- Redis: database 0 carries table, telemetry and probes; 1 channels, 2 Celery ---
REDIS_URL = environment.redis_url(
    "SWITCHYARD_REDIS_URL",
    socket_path(DATA_DIR),
    about=SettingDoc(
        "the Redis (6.2 or newer) or Valkey that carries table, telemetry, probes and tasks; that logical "
        "database and the two after it are used",
        "redis://:password@10.0.0.5:6379/0",
        "a socket in the data folder",
    ),
)
_CHANNELS_URL = environment.redis_sibling("SWITCHYARD_REDIS_URL", REDIS_URL, 1)
_CELERY_URL = environment.redis_sibling("SWITCHYARD_REDIS_URL", REDIS_URL, 2)

# Not CELERY_…: those names are Celery's.
BROKER_REDIS_URL = _CELERY_URL

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "controlplane.datastores.channel_layer.ChannelLayer",
        "CONFIG": {"hosts": [_CHANNELS_URL], "prefix": "sy"},
    }
}
CELERY_BROKER_URL = environment.celery_broker_url(_CELERY_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 60,
    "socket_timeout": 10,
    "socket_connect_timeout": 10,
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
# In a pool of threads they end nothing: see controlplane/celery_monitoring/running_tasks.py.
CELERY_TASK_SOFT_TIME_LIMIT = 60
CELERY_TASK_TIME_LIMIT = 90
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
# Its commands (shutdown, pool_restart, rate_limit …) are obeyed from whoever reaches Redis. Nothing here
# needs them: /livez and /readyz of the metrics listener say how a worker is.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TIMEZONE = "UTC"
CELERY_IMPORTS = ["controlplane.celery_monitoring.worker", "controlplane.celery_monitoring.beat"]
CELERY_BEAT_SCHEDULER = "controlplane.celery_monitoring.beat:InstrumentedScheduler"
CELERY_BEAT_SCHEDULE = {
    "probe-tick": {
        "task": "controlplane.probes.tasks.tick",
        "schedule": 1.0,
        # Wide, because it is judged by two hosts' clocks; a late tick finds nothing due and costs nothing.
        "options": {"expires": 15.0},
    },
    "read-exporters": {
        "task": "controlplane.exporters.tasks.read_exporters",
        "schedule": 10.0,
        "options": {"expires": 15.0},
    },
    "keep-history": {
        "task": "controlplane.telemetry.tasks.keep_history",
        # A minute after each five are over, when their last minute is there.
        "schedule": crontab(minute="1-56/5"),
        "options": {"expires": 240.0},
    },
    "alerts-tick": {
        "task": "controlplane.alerts.tasks.tick",
        "schedule": 5.0,
        "options": {"expires": 15.0},
    },
    "forget-old": {
        "task": "controlplane.retention.tasks.forget_old",
        # By the clock, so that a beat that is restarted often still gets to it.
        "schedule": crontab(minute=17),
        "options": {"expires": 3600.0},
    },
}

# --- What is kept, and how long: events, audit entries, revisions, revoked keys ---
EVENTS_DAYS = environment.whole_number(
    "SWITCHYARD_EVENTS_DAYS",
    90,
    1,
    36500,
    about=SettingDoc("events older than this are deleted, each hour", "30"),
)
HISTORY_DAYS = environment.whole_number(
    "SWITCHYARD_HISTORY_DAYS",
    90,
    1,
    3660,
    about=SettingDoc("five-minute rows of fleets' history older than this are deleted, each hour", "30"),
)
AUDIT_DAYS = environment.whole_number(
    "SWITCHYARD_AUDIT_DAYS",
    365,
    1,
    36500,
    about=SettingDoc(
        "audit entries (who changed what), policy revisions not in force and revoked client keys older than "
        "this are deleted, each hour",
        "1825",
    ),
)

# --- How large the routing table may become: proxy workers go through all of it several times a second ---
MAX_REPLICAS = environment.whole_number(
    "SWITCHYARD_MAX_REPLICAS",
    10_000,
    1,
    12_000,
    about=SettingDoc(
        "replicas of all fleets together; a write that would make them more is refused. All of it was "
        "measured up to the default",
        "2000",
    ),
)

# --- Where sources of kind `file` may lie: whoever makes sources names no other file of this host ---
SOURCES_DIR = environment.folder(
    "SWITCHYARD_SOURCES_DIR",
    DATA_DIR / "sources",
    about=SettingDoc(
        "folder of the files that [sources](discovery.md#files) of kind `file` read, on the hosts of "
        "conductors",
        "/etc/switchyard/sources",
        "`sources/` in the data folder",
    ),
)
# The cluster whose services sources of kind `kubernetes` may name; in a pod the defaults are right.
KUBERNETES_URL = environment.http_url(
    "SWITCHYARD_KUBERNETES_URL",
    "https://kubernetes.default.svc",
    about=SettingDoc(
        "API server that [sources](discovery.md#kubernetes) of kind `kubernetes` ask", "https://10.0.0.1:6443"
    ),
)
KUBERNETES_TOKEN_FILE = environment.text(
    "SWITCHYARD_KUBERNETES_TOKEN_FILE",
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    about=SettingDoc(
        "file with the token for it, on the hosts of conductors; empty: none is sent",
        "/etc/switchyard/k8s.token",
    ),
)
KUBERNETES_CA_FILE = environment.text(
    "SWITCHYARD_KUBERNETES_CA_FILE",
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
    about=SettingDoc(
        "certificates trusted for it, on the hosts of conductors; empty: the system's",
        "/etc/switchyard/k8s.pem",
    ),
)

# --- Database ---
DATABASES = {
    "default": environment.database(
        "SWITCHYARD_DATABASE_URL",
        DATA_DIR,
        about=SettingDoc(
            "the database: SQLite 3.35 or newer for one host, PostgreSQL 14 or newer for any number",
            "postgresql://switchyard:password@10.0.0.6:5432/switchyard?sslmode=require",
            "SQLite in the data folder",
        ),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Django ---
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "controlplane",
    "dashboard",
]
MIDDLEWARE = [
    "controlplane.observability.request_middleware.RequestMiddleware",
    "controlplane.web.security_headers.SecurityHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "controlplane.web.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "controlplane.web.password_change.PasswordChangeMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
# Named here and imported by name, because the control plane never imports the dashboard.
WEBSOCKET_URLPATTERNS = "dashboard.websocket_urls.websocket_urlpatterns"
APPEND_SLASH = False
# Bodies stay in memory: controlplane/web/request_limits.py lets none in that is larger.
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

# --- Static files: collected with hashed names; SWITCHYARD_COLLECTED_STATIC=0 serves them as they lie ---
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
COLLECTED_STATIC = environment.flag(
    "SWITCHYARD_COLLECTED_STATIC",
    default=not DEBUG,
    about=SettingDoc(
        "`0`: serve static files from the source, without `collectstatic`",
        "0",
        "`1`; `0` with debug",
    ),
)
STORAGES = {
    "staticfiles": {
        "BACKEND": "controlplane.web.static_files.HashedStaticFiles"
        if COLLECTED_STATIC
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not COLLECTED_STATIC
WHITENOISE_AUTOREFRESH = not COLLECTED_STATIC
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- People ---
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "controlplane.services.password_tokens.EndTokens"},
]
# --- Addresses that replicas may have (controlplane/config/replica_addresses.py) ---
ALLOWED_ADDRESSES = environment.networks(
    "SWITCHYARD_ALLOWED_ADDRESSES",
    about=SettingDoc(
        "exceptions from the addresses at which [no replica can be](production.md#addresses-of-replicas). "
        "The most specific network decides. Proxies read this too",
        "169.254.10.0/24",
    ),
)
DENIED_ADDRESSES = environment.networks(
    "SWITCHYARD_DENIED_ADDRESSES",
    about=SettingDoc("further addresses at which no replica can be. Proxies read this too", "10.9.0.0/16"),
)
OWN_PORTS = environment.own_ports(
    "SWITCHYARD_OWN_PORTS",
    about=SettingDoc(
        "ports of this installation that a process cannot know by itself, such as those of others on its "
        "host; no replica can be there, whatever is allowed. Without `HOST`: at every address of the host. "
        "Proxies read this too; `switchyard up` adds its own",
        "127.0.0.1:8000,127.0.0.1:9464-9467,10.0.0.5:8081",
    ),
)

# --- Browser security (the content security policy is in security_headers.py) ---
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_ENGINE = "controlplane.web.hashed_sessions"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = TLS
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = TLS
CSRF_FAILURE_VIEW = "controlplane.api.errors.csrf_failure"
if TLS:
    # Sent with answers to https requests only. Not for subdomains: other services may have those.
    SECURE_HSTS_SECONDS = HSTS_S
    CSRF_TRUSTED_ORIGINS = environment.https_origins(ALLOWED_HOSTS)

# `check --deploy` asks for these too. W005, W021: HSTS for subdomains and its preload list are
# for whoever owns the domain. W008: the reverse proxy redirects to https; health checks come by http.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "security.W008"]

# --- REST API ---
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.api.rendering.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsing.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.pagination.Pages",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["controlplane.api.throttling.FixedWindowThrottle"],
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "controlplane.api.errors.problem_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Switchyard API",
    "DESCRIPTION": (
        "Fleets of model replicas, their policies and what happens to them. Every error is "
        "`application/problem+json`; writes that reach the proxies say which table version carries them."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    # Fields of one name and different words: their types have names that say whose they are.
    "ENUM_NAME_OVERRIDES": {
        "DestinationKindEnum": ["webhook", "slack", "alertmanager", "email"],
        "SourceKindEnum": ["file", "lease", "dns", "kubernetes"],
        "SourceStateEnum": ["waiting", "followed", "frozen", "failing", "paused"],
    },
}

# --- Logs: one line each on standard error, which the supervisor keeps in files ---
LOG_LEVEL = environment.choice(
    "SWITCHYARD_LOG_LEVEL",
    "INFO",
    ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    about=SettingDoc("lowest level that is logged", "WARNING"),
)
LOG_FORMAT = cast(
    Format,
    environment.choice(
        "SWITCHYARD_LOG_FORMAT",
        default_format(sys.stderr),
        FORMATS,
        about=SettingDoc(
            "format of log lines: one JSON object each, or text for people",
            "json",
            "`text` on a terminal, else `json`",
        ),
    ),
)
LOGGING = configuration(LOG_LEVEL, LOG_FORMAT)
# Warnings of Python are log lines too, from before the first app is loaded.
logging.captureWarnings(True)

# --- Metrics and probes of each process ---
METRICS_LISTEN = environment.listen_address(
    "SWITCHYARD_METRICS_LISTEN",
    about=SettingDoc(
        "address of the metrics listener (`/metrics`, `/livez`, `/readyz`), one port for each process. "
        "An address that other machines can reach needs a token",
        "127.0.0.1:9464",
        "off",
    ),
)
METRICS_TOKEN = environment.text(
    "SWITCHYARD_METRICS_TOKEN",
    about=SettingDoc(
        "bearer token for `/metrics`, 16 or more characters",
        "a-long-random-word-4fQ9",
        "none, for loopback only",
    ),
)
environment.refuse_open_metrics(METRICS_LISTEN, METRICS_TOKEN)
