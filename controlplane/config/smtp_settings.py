"""Mail server (SMTP) of the environment, as one URL."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from controlplane.config.environment import text, without_password
from controlplane.config.setting_docs import SettingDoc, declare

PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


class SmtpServer(NamedTuple):
    host: str
    """Empty: none is set."""
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def smtp_server(name: str, *, about: SettingDoc) -> SmtpServer:
    """``smtp[s]://[user:password@]host[:port]``, or ``smtp+starttls://…``."""
    declare(name, "`smtp://`, `smtp+starttls://` or `smtps://` URL", "", about)
    url = text(name)
    if not url:
        return SmtpServer("")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{name}={without_password(url)!r} must look like smtp+starttls://user:password@host:587."
        )
    return SmtpServer(
        parts.hostname,
        port or PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        parts.scheme == "smtp+starttls",
        parts.scheme == "smtps",
    )
