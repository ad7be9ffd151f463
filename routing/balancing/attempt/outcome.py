"""How one attempt at one replica ended, as seen by whoever sent it."""

import enum


class Outcome(enum.Enum):
    """Exactly one of these is told to the pool for every attempt that was begun."""

    SUCCESS = "success"
    """The status was below 400 and the response came to its end."""
    FAILED = "failed"
    """The replica answered 5xx."""
    WITHOUT_MODEL = "without_model"
    """404 to an inference call: it lives, and does not have the model (any more)."""
    REFUSED = "refused"
    """No connection: refused, unreachable or not opened in time. No request byte was written."""
    LOST = "lost"
    """The connection broke, or what came back was not a valid response."""
    TIMEOUT = "timeout"
    """A time limit of the fleet's policy passed (not one that the client set)."""
    REJECTED = "rejected"
    """429, or 503 with ``Retry-After``: load, not death."""
    SWITCHED = "switched"
    """101: it lives, and the connection has become a tunnel. How long that took says nothing of its speed."""
    CLIENT_ERROR = "client_error"
    """Any other 4xx: the request's fault."""
    PREVENTED = "prevented"
    """The proxy itself had no descriptor left for a connection. Nothing was asked of the replica."""
    CANCELLED = "cancelled"
    """The client left, or a deadline that the client set has passed."""


FAILURES = frozenset({Outcome.FAILED, Outcome.WITHOUT_MODEL, Outcome.REFUSED, Outcome.LOST, Outcome.TIMEOUT})
"""Outcomes that count against a replica. Load, cancels, the proxy's wants and clients' errors never do."""
