"""Sizes and times that bound one client connection."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what a client may send and how slowly. Sizes in bytes, times in seconds."""

    max_target: int = 16_384
    """Longest request target; RFC 9112 §3 asks for at least 8,000."""
    max_head: int = 65_536
    max_fields: int = 128
    max_body: int = 64 << 20
    max_pipelined: int = 65_536
    """Bytes of further requests held while one is being answered; then reading stops."""
    head_timeout_s: float = 10.0
    """From a head's first byte (or from the connection's opening) to its last."""
    keep_alive_s: float = 75.0
    body_grace_s: float = 25.0
    """A body may take this long, plus one second for every ``body_min_rate`` bytes received."""
    body_min_rate: float = 1024.0
    write_stall_s: float = 60.0
    """A client that takes no byte of its answer for this long is cut off."""
    linger_s: float = 1.0
    linger_bytes: int = 262_144
    """After an early answer, what is still arriving is read and dropped up to these bounds."""
