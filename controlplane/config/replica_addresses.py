"""Address policy of the control plane's processes: which addresses a replica may have, by the settings.

No replica can be where a process listens or what it connects to: metrics listener, proxy, Redis, database.
"""

from django.conf import settings

from controlplane.config.listen_address import ListenAddress
from routing.contract import address_policy
from routing.contract.address_policy import AddressPolicy
from routing.contract.address_rules import AddressRules, OwnPort, own_service
from routing.contract.local_addresses import is_local

PORTS = {"http": 80, "https": 443}
REDIS_PORT = 6379
POSTGRES_PORT = 5432


def judge_by_settings() -> None:
    """Judge addresses by the settings in this process from now on."""
    address_policy.use(AddressPolicy(rules(), is_local))


def rules() -> AddressRules:
    own = (*settings.OWN_PORTS, *_metrics(settings.METRICS_LISTEN), *_proxy(settings.PROXY_URL))
    redis = own_service(settings.REDIS_URL, REDIS_PORT, "Switchyard's Redis", any_host=True)
    database = _database(settings.DATABASES["default"])
    return AddressRules(settings.ALLOWED_ADDRESSES, settings.DENIED_ADDRESSES, (*own, *redis, *database))


def _metrics(listen: ListenAddress | None) -> tuple[OwnPort, ...]:
    return () if listen is None else (OwnPort(listen.port, "Switchyard's metrics listener", listen.host),)


def _proxy(url: str) -> tuple[OwnPort, ...]:
    """None where nobody has said where the proxy is, and below a path: another server may be there."""
    scheme, _, place = url.partition("://")
    if url == settings.DEFAULT_PROXY_URL or "/" in place:
        return ()
    return own_service(url, PORTS[scheme], "the proxy (SWITCHYARD_PROXY_URL)")


def _database(database: dict[str, object]) -> tuple[OwnPort, ...]:
    """PostgreSQL's hosts, of which there may be several; none for SQLite and for a Unix socket."""
    hosts = [host for host in str(database.get("HOST", "")).split(",") if host and not host.startswith("/")]
    port = int(str(database.get("PORT") or POSTGRES_PORT))
    return tuple(OwnPort(port, "Switchyard's database", host.lower(), any_host=True) for host in hosts)
