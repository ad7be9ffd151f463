"""The reverse proxy of one worker: the only place where HTTP meets load balancing."""

from routing.proxy.proxy import Proxy
from routing.proxy.settings import ProxySettings

__all__ = ["Proxy", "ProxySettings"]
