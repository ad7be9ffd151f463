"""Settings of one proxy worker besides its table."""

import msgspec

from routing.http.limits import ConnectionLimits


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds."""

    name: str = "switchyard"
    """The name in ``Via``. A request that bears it has been here before and is refused."""
    limits: ConnectionLimits = ConnectionLimits()
    peek_bytes: int = 8 << 20
    """Largest body that is read to find the fleet named in it."""
    peek_budget_bytes: int = 256 << 20
    """All bodies together that are being read for that at one time."""
    idle_connections: int = 256
    """Kept open to each replica."""
    idle_connection_s: float = 4.0
    """Shorter than the keep-alive time of common model servers (uvicorn: 5 s)."""
