"""Body settings: the bounds that a proxy's workers set for request bodies, whoever sends them."""

import msgspec


class BodySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same for all fleets. Sizes in bytes, times in seconds."""

    memory_bytes: int = 192 << 20
    """Limit for all bodies together that a worker holds at one time."""
    stall_s: float = 10.0
    """A body of which hardly anything comes for so long is given up."""
    total_s: float = 120.0
    """A body whose fleet is not known may take so long in all."""
