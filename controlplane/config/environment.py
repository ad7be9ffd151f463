"""Reading settings from environment variables. A wrong value stops the start with one message.

Every reader takes ``about``: the description for ``docs/settings.md`` (see ``setting_docs.py``).
"""

import os
import re
import secrets
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from django.core.exceptions import ImproperlyConfigured

from controlplane.config import private_folder
from controlplane.config.listen_address import ListenAddress
from controlplane.config.setting_docs import SettingDoc, declare
from routing.contract import address_rules
from routing.contract import trusted_proxies as trusted
from routing.contract.address_rules import OwnPort

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]", "testserver"})
LONGEST_SOCKET_PATH = 100
"""The kernel's limit is 107 bytes; a socket's server needs a few for its temporary name."""


def text(name: str, default: str = "", *, about: SettingDoc | None = None) -> str:
    """``about`` None: the caller has declared it already."""
    if about is not None:
        declare(name, "text", default, about)
    return os.environ.get(name, default).strip()


def flag(name: str, *, default: bool = False, about: SettingDoc) -> bool:
    """``1/true/yes/on`` or ``0/false/no/off``; anything else raises ImproperlyConfigured."""
    declare(name, "`1` or `0`", "1" if default else "0", about)
    raw = os.environ.get(name)
    if raw is None:
        return default
    word = raw.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is not a yes or no: use 1 or 0.")


def choice(name: str, default: str, allowed: tuple[str, ...], *, about: SettingDoc) -> str:
    declare(name, " or ".join(f"`{word}`" for word in allowed), default, about)
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(allowed)}.")
    return value


def whole_number(name: str, default: int, least: int, most: int, *, about: SettingDoc) -> int:
    """From ``least`` to ``most``; anything else raises ImproperlyConfigured."""
    declare(name, f"whole number, {least} to {most}", str(default), about)
    raw = text(name) or str(default)
    if not re.fullmatch(r"-?[0-9]{1,18}", raw) or not least <= int(raw) <= most:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number from {least} to {most}.")
    return int(raw)


def listing(name: str, default: str, *, about: SettingDoc) -> list[str]:
    """Comma-separated words; empty ones are dropped."""
    declare(name, "words, separated by commas", default, about)
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, *, about: SettingDoc) -> tuple[str, ...]:
    """Networks, IP addresses and host names in normal form; anything else raises ImproperlyConfigured."""
    declare(name, "networks, IP addresses and host names, separated by commas", "", about)
    try:
        return address_rules.read_networks(text(name))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


def trusted_proxies(name: str, *, about: SettingDoc) -> tuple[str, ...]:
    """Networks, IP addresses and ``unix`` in normal form; anything else raises ImproperlyConfigured."""
    declare(name, "networks, IP addresses and `unix`, separated by commas", "", about)
    try:
        return trusted.read(text(name))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


def own_ports(name: str, *, about: SettingDoc) -> tuple[OwnPort, ...]:
    """``PORT`` or ``FROM-TO``, with ``HOST:`` before it or not; else raises ImproperlyConfigured."""
    declare(name, "`PORT`, `FROM-TO`, `HOST:PORT` or `HOST:FROM-TO`, separated by commas", "", about)
    try:
        return address_rules.read_ports(text(name))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}.") from error


def folder(name: str, default: Path, *, about: SettingDoc) -> Path:
    """An absolute folder, made when it is missing."""
    declare(name, "absolute path of a folder", str(default), about)
    path = Path(text(name) or default).expanduser()
    if not path.is_absolute():
        raise ImproperlyConfigured(f"{name}={str(path)!r} must be an absolute path.")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ImproperlyConfigured(f"{name}: cannot make the folder {path}: {error.strerror}.") from error
    return path


def http_url(name: str, default: str, *, about: SettingDoc) -> str:
    """An http(s) URL without its trailing slash."""
    declare(name, "`http://` or `https://` URL", default, about)
    return _checked_http_url(name, text(name, default))


def _checked_http_url(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ImproperlyConfigured(f"{name}={url!r} must look like http://host:port.")
    return url.rstrip("/")


def public_url(name: str, *, about: SettingDoc) -> str:
    """As :func:`http_url`; empty: nobody has said."""
    declare(name, "`http://` or `https://` URL", "", about)
    url = text(name)
    return _checked_http_url(name, url) if url else ""


def secret_key(name: str, file: Path, *, about: SettingDoc) -> str:
    """The key from the environment, else from ``file``, which is made with a random key when missing."""
    declare(name, "50 random characters", "", about)
    from_environment = text(name)
    if from_environment:
        return from_environment
    if not file.exists():
        _create_secret(file)
    key = file.read_text(encoding="ascii").strip()
    if not key:
        raise ImproperlyConfigured(f"{file} is empty: delete it, and the next start makes a new key.")
    return key


def _create_secret(file: Path) -> None:
    """Written to a temporary file and linked into place: of several processes starting at once, one wins."""
    aside = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(secrets.token_urlsafe(64) + "\n")
    try:
        os.link(aside, file)
    except FileExistsError:
        pass
    finally:
        aside.unlink()


def listen_address(name: str, *, about: SettingDoc) -> ListenAddress | None:
    """``HOST:PORT``; None: not set."""
    declare(name, "`HOST:PORT`", "", about)
    given = text(name)
    if not given:
        return None
    try:
        return ListenAddress.parse(given)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={given!r}: {error}") from error


def refuse_open_metrics(address: ListenAddress | None, token: str) -> None:
    """Metrics are sensitive: from other machines they can be read with a token only."""
    if address is not None and not address.is_loopback and not token:
        raise ImproperlyConfigured(
            f"SWITCHYARD_METRICS_LISTEN={address} can be reached from other machines: set "
            "SWITCHYARD_METRICS_TOKEN, which a scraper sends as bearer token, or listen on 127.0.0.1."
        )
    if token and not re.fullmatch(r"[\x21-\x7e]{16,}", token):
        raise ImproperlyConfigured("SWITCHYARD_METRICS_TOKEN must have 16 or more printable characters.")


def refuse_weak_secret(key: str, hosts: list[str]) -> None:
    """A weak key is accepted for loopback only."""
    weak = len(key) < 32 or len(set(key)) < 8 or key.startswith("django-insecure-")
    public = [host for host in hosts if host not in LOOPBACK_HOSTS]
    if weak and public:
        raise ImproperlyConfigured(
            f"SWITCHYARD_SECRET_KEY is too weak to serve {', '.join(public)}: use 50 random characters, "
            "or unset it, and a random key is kept in the data folder."
        )


def refuse_public_debug(debug: bool, hosts: list[str]) -> None:
    public = [host for host in hosts if host not in LOOPBACK_HOSTS]
    if debug and public:
        raise ImproperlyConfigured(
            f"SWITCHYARD_DEBUG shows source code on errors: it cannot serve {', '.join(public)}."
        )


def https_origins(hosts: list[str]) -> list[str]:
    """Origins of pages under these allowed hosts; ``.example.com`` is that name and all below it."""
    found = []
    for host in hosts:
        if host.startswith("."):
            found += [f"https://{host[1:]}", f"https://*{host}"]
        elif host != "*":
            found.append(f"https://{host}")
    return found


def without_password(url: str) -> str:
    """For messages and logs."""
    netloc = urlsplit(url).netloc
    user, at, host = netloc.rpartition("@")
    return url.replace(netloc, f"{user.partition(':')[0]}:…@{host}", 1) if at else url


def redis_url(name: str, default_socket: Path, *, about: SettingDoc) -> str:
    """``redis[s]://host:port/0`` or ``unix:///path.sock?db=0``."""
    declare(name, "`redis://`, `rediss://` or `unix://` URL", "", about)
    url = text(name) or f"unix://{default_socket}?db=0"
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ImproperlyConfigured(
            f"{name}={without_password(url)!r} must look like redis://host:port/0 or unix:///path.sock?db=0."
        )
    if parts.scheme == "unix" and len(parts.path) > LONGEST_SOCKET_PATH:
        raise ImproperlyConfigured(
            f"The Redis socket's path {parts.path} is longer than {LONGEST_SOCKET_PATH} characters: "
            f"set {name}, or a shorter SWITCHYARD_DATA_DIR."
        )
    if parts.scheme == "unix" and Path(parts.path) == default_socket:
        _refuse_foreign_folder(name, default_socket.parent)
    redis_database_number(name, url)
    return url


def _refuse_foreign_folder(name: str, folder: Path) -> None:
    """Whoever owns the folder of the socket can be the Redis that answers there."""
    try:
        private_folder.refuse_foreign(folder)
    except private_folder.NotPrivate as error:
        raise ImproperlyConfigured(f"{error} Or name a Redis with {name}.") from None


def redis_database_number(name: str, url: str) -> int:
    parts = urlsplit(url)
    in_query = parse_qs(parts.query).get("db")
    written = in_query[0] if in_query else (parts.path.strip("/") if parts.scheme != "unix" else "")
    if not written:
        return 0
    if not written.isdigit():
        raise ImproperlyConfigured(
            f"{name}={without_password(url)!r}: {written!r} is not the number of a Redis database."
        )
    return int(written)


def redis_sibling(name: str, url: str, offset: int) -> str:
    """The same server's database with a number higher by ``offset``."""
    parts = urlsplit(url)
    number = redis_database_number(name, url) + offset
    query = {key: values[-1] for key, values in parse_qs(parts.query).items() if key != "db"}
    if parts.scheme == "unix":
        return f"unix://{parts.netloc}{parts.path}?{urlencode({**query, 'db': number})}"
    return parts._replace(path=f"/{number}", query=urlencode(query)).geturl()


def celery_broker_url(redis: str) -> str:
    """Celery writes a socket as ``redis+socket://user:password@/path?virtual_host=N``."""
    parts = urlsplit(redis)
    if parts.scheme != "unix":
        return redis
    number = redis_database_number("SWITCHYARD_REDIS_URL", redis)
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"


def database(name: str, data_dir: Path, *, about: SettingDoc) -> dict[str, object]:
    """Django's settings for SQLite in the data folder, or for ``postgresql://user:password@host:port/name``."""
    declare(name, "`postgresql://` or `sqlite://` URL", "", about)
    url = text(name)
    if not url:
        return sqlite(data_dir / "db.sqlite3")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite(Path(unquote(parts.path)))
    if parts.scheme not in ("postgresql", "postgres"):
        raise ImproperlyConfigured(
            f"{name} must begin with postgresql:// or sqlite:///, not {parts.scheme!r}."
        )
    if not parts.path.strip("/"):
        raise ImproperlyConfigured(f"{name} names no database: postgresql://user:password@host:5432/NAME.")
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "controlplane.datastores.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": parts.port or "",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**POSTGRES_OPTIONS, **options},
    }


POSTGRES_OPTIONS: dict[str, object] = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""A server that cannot be reached any more is given up after 25 s (seconds; the last one in ms). How long one
that is reached may take: :mod:`controlplane.datastores.postgres_timeouts`. What becomes of one that hangs:
:mod:`controlplane.datastores.postgresql.hangs`."""

SQLITE_TIMEOUT_S = 20
"""How long a writer waits for its turn."""


def sqlite(file: Path) -> dict[str, object]:
    """Write-ahead log, so that readers never wait for a writer; a writer waits up to 20 s for its turn.

    ``IMMEDIATE`` takes the write lock when a transaction begins: with the default, two transactions
    that read before they write fail at once instead of waiting for each other.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "OPTIONS": {
            "timeout": SQLITE_TIMEOUT_S,
            "transaction_mode": "IMMEDIATE",
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; "
                "PRAGMA cache_size=-16000;"
            ),
        },
        "TEST": {"NAME": str(file.with_name("test.sqlite3"))},
    }
