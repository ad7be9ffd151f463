"""The server side: the only place where HTTP meets balancing."""

from routing.proxy.proxy import Proxy
from routing.proxy.settings import ProxySettings

__all__ = ["Proxy", "ProxySettings"]
