"""One exchange after another: the only place where HTTP meets the routing table."""

from routing.proxy.proxy import Proxy
from routing.proxy.settings import ProxySettings

__all__ = ["Proxy", "ProxySettings"]
