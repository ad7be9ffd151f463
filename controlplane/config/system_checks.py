"""System checks of ``manage.py check``, each with a number and a hint."""

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from django.apps.config import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection

from controlplane.config import environment
from controlplane.config.setting_docs import misspelt

OLDEST_SQLITE = (3, 35, 0)


@register(Tags.database)
def database_driver(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if connection.vendor != "sqlite" or sqlite3.sqlite_version_info >= OLDEST_SQLITE:
        return []
    wanted = ".".join(map(str, OLDEST_SQLITE))
    return [
        Error(
            f"SQLite {sqlite3.sqlite_version} is older than {wanted}.",
            hint="Use a newer Python, or PostgreSQL through SWITCHYARD_DATABASE_URL.",
            id="switchyard.E001",
        )
    ]


@register(Tags.security)
def public_without_tls(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    public = [host for host in settings.ALLOWED_HOSTS if host not in environment.LOOPBACK_HOSTS]
    if not public or settings.TLS:
        return []
    return [
        Warning(
            f"Pages and API are served for {', '.join(public)} without TLS: passwords and tokens can be read "
            "on the way.",
            hint="Put a TLS proxy in front that sets X-Forwarded-For and X-Forwarded-Proto, name its address "
            "in SWITCHYARD_TRUSTED_PROXIES, and set SWITCHYARD_TLS=1.",
            id="switchyard.W001",
        )
    ]


@register(Tags.security)
def reverse_proxy_is_named(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if not settings.TLS or settings.TRUSTED_PROXIES:
        return []
    return [
        Warning(
            "SWITCHYARD_TLS says that a reverse proxy is in front, but none is trusted: all its clients "
            "count as one address, so that one of them can use up what all may guess, and its "
            "X-Forwarded-Proto is not believed, so that browsers are not told to stay with https.",
            hint="Set SWITCHYARD_TRUSTED_PROXIES to the address from which it connects: 127.0.0.1 on the "
            "same host, unix for a Unix socket.",
            id="switchyard.W004",
        )
    ]


@register(deploy=True)
def static_files_collected(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if not settings.COLLECTED_STATIC or (settings.STATIC_ROOT / "staticfiles.json").exists():
        return []
    return [
        Warning(
            f"No static files have been collected in {settings.STATIC_ROOT}.",
            hint="Run: manage.py collectstatic --noinput",
            id="switchyard.W002",
        )
    ]


@register()
def settings_spelt(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    return [
        Warning(
            f"{name} is not a setting and has no effect.",
            hint=f"Did you mean {meant}? All of them are in docs/settings.md.",
            id="switchyard.W003",
        )
        for name, meant in misspelt(os.environ).items()
    ]
