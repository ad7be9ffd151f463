"""Proxy settings: those of one worker that are not in its routing table."""

import msgspec

from routing.contract.body_settings import BodySettings
from routing.http.limits import ConnectionLimits


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds."""

    name: str = "switchyard"
    """The name in ``Via``, until it is called otherwise (:meth:`routing.proxy.Proxy.be_called`). A request
    that already has it is in a routing loop and is rejected."""
    limits: ConnectionLimits = ConnectionLimits()
    peek_bytes: int = 8 << 20
    """Largest body that is buffered to find the fleet's name in it."""
    bodies: BodySettings = BodySettings()
    idle_connections: int = 256
    """Kept open to each replica."""
    idle_connection_s: float = 4.0
    """Shorter than the keep-alive time of common model servers (uvicorn: 5 s)."""
