"""Outcome of an attempt: how one request at one replica ended, as its sender saw it."""

import enum


class Outcome(enum.Enum):
    """Every attempt is settled with exactly one of these."""

    SUCCESS = "success"
    """The status was below 400 and the response came to its end."""
    FAILED = "failed"
    """The replica answered 5xx."""
    WITHOUT_MODEL = "without_model"
    """404 to an inference call: the replica is alive, but does not have the model (any more)."""
    REFUSED = "refused"
    """No connection: refused, unreachable or not opened in time. No request byte was written."""
    LOST = "lost"
    """The connection broke, or what came back was not a valid response."""
    TRUNCATED = "truncated"
    """200 to an inference call, with a stream that ended well in HTTP and before its answer did."""
    TIMEOUT = "timeout"
    """A time limit of the fleet's policy passed (not one that the client set)."""
    REJECTED = "rejected"
    """429, or 503 with ``Retry-After``: the replica is overloaded, not broken."""
    WITHOUT_RESULT = "without_result"
    """200 to an inference call, with a body that is no answer of its protocol."""
    SWITCHED = "switched"
    """101: the connection has become a tunnel. How long that took says nothing about the replica's speed."""
    CLIENT_ERROR = "client_error"
    """Any other 4xx: the fault is the request's."""
    PREVENTED = "prevented"
    """The proxy's own host could open no connection: no descriptor, local port or memory was left. Nothing
    was sent to the replica."""
    BEATEN = "beaten"
    """Given up: another replica was sent the request as well, because this one had sent nothing, and has
    answered first."""
    CANCELLED = "cancelled"
    """The client left, a deadline that the client set has passed, it was a second attempt that the first has
    made needless, or the request was moved to another replica because this one is to be free."""


FAILURES = frozenset(
    {
        Outcome.FAILED,
        Outcome.WITHOUT_MODEL,
        Outcome.REFUSED,
        Outcome.LOST,
        Outcome.TRUNCATED,
        Outcome.TIMEOUT,
    }
)
"""Outcomes that count against a replica. Overload, cancellation, ``PREVENTED`` and client errors never do.
``BEATEN`` does where nothing at all was heard of the replica meanwhile.
``WITHOUT_RESULT`` does where it does not happen at other replicas as well
(:mod:`routing.balancing.outlier.missing_results`)."""
