"""TTL lease of a replica that registers itself. Pure."""

AWAY_S = 5.0
"""A longer gap between two steps means that nobody could renew: we were away."""


def back_at(before: float | None, last_step: float | None, now: float) -> float | None:
    """When we were last back from being away, for :func:`is_valid`; seconds of one clock.

    ``before``: what the last step returned; ``last_step``: when it was, ``None``: this is the first.
    """
    return now if last_step is None or now - last_step > AWAY_S else before


def is_valid(expires_at: float, ttl_s: float, back: float | None, now: float) -> bool:
    """Whether the lease holds: until it ends, or one whole TTL after we came back, whichever is later."""
    return now < max(expires_at, expires_at if back is None else back + ttl_s)
