"""Ended requests: exact totals of one fleet at one worker, over restarts of that worker. A leaf.

A request counts once, when it has ended: it was *served* (by a replica, or by the proxy itself with a status
below 400), it was a *client's error* (4xx), an *error* (5xx, or an answer that broke off), or it was
*dropped*: its client left, or its own time limit passed. The four together are all requests that have ended.
"""

import msgspec

ERROR_REASONS = {
    "other": "another reason",
    "replica_500": "a replica responded with 500",
    "replica_5xx": "a replica responded with another 5xx",
    "replica_unreachable": "no connection to the replica",
    "connect_timeout": "no connection to the replica in time",
    "connect_prevented": "the proxy's host could open no connection",
    "descriptors_exhausted": "the proxy had no file descriptor left",
    "tls_failed": "the replica's certificate is not valid",
    "address_denied": "the replica's address is not allowed",
    "credential_missing": "the replica's credential cannot be read",
    "replica_lost": "the connection broke before a response",
    "bad_response": "what came was no valid response",
    "truncated": "a stream ended before its answer did",
    "error_event": "a stream began with an error of its server",
    "without_result": "200 with a body that is no answer",
    "not_continued": "a stream broke off and could not go on elsewhere",
    "model_not_loaded": "the replica does not have the model",
    "timeout": "a time limit of the policy passed",
    "status": "a response that was to be retried, and no other replica was left",
    "queue_full": "the queue was full, or another request took the place in it",
    "queue_late": "the wait in the queue would have been too long",
    "queue_timeout": "the wait in the queue was too long",
    "busy": "no replica has a free slot",
    "memory": "no device has the memory for it",
    "no_replica": "no replica is eligible",
    "fleet_cold": "every replica is still loading",
    "replica_gone": "the only replica that could serve it is away",
    "fleet_removed": "the fleet was removed",
}
"""Why requests end with an error → the same in words. Most are the codes of the proxy's own errors. The order
is that of the fields in shared memory."""

_GROUPED = {
    "memory_never": "memory",
    "memory_short": "memory",
    "no_other_replica": "no_replica",
    "replica_closed": "replica_gone",
    "replica_unavailable": "replica_gone",
}


def reason_of(code: str) -> str:
    """One of :data:`ERROR_REASONS` for an error's code, whatever that is."""
    if code in ERROR_REASONS:
        return code
    return "status" if code.startswith("status_") else _GROUPED.get(code, "other")


def reason_of_status(status: int) -> str:
    """The same for a replica's response that was forwarded."""
    return "replica_500" if status == 500 else "replica_5xx"


class EndedRequests(msgspec.Struct, kw_only=True):
    """Totals of requests that have ended, and good and bad ones by objective. They only grow."""

    served: int = 0
    client_errors: int = 0
    dropped: int = 0
    """The client left, or its own time limit passed."""
    errors: dict[str, int] = {}
    """By reason (:data:`ERROR_REASONS`)."""
    retries: int = 0
    input_tokens: int = 0
    """Tokens of prompts as answers report them; where an answer of OpenAI's protocol does not, estimated from
    the request's length, at four bytes each."""
    output_tokens: int = 0
    slow: int = 0
    """Of those served: longer than the latency objective. Counted while there is one."""
    timed: int = 0
    """Those served while there is a latency objective."""
    streams: int = 0
    """Streamed answers that have begun while there is a first-token objective."""
    late_streams: int = 0
    """Of those: the first token came later than the objective says."""

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())

    @property
    def requests(self) -> int:
        """All that have ended."""
        return self.served + self.client_errors + self.dropped + self.error_count

    def objectives(self) -> list[tuple[str, int, int]]:
        """Each objective's name, the requests that count for it, and those of them that have met it."""
        errors = self.error_count
        success = self.served + self.client_errors
        return [
            ("success", success + errors, success),
            ("latency", self.timed, self.timed - self.slow),
            ("first_token", self.streams, self.streams - self.late_streams),
        ]

    def plus(self, other: "EndedRequests") -> "EndedRequests":
        """Both together."""
        return self._combined(other, 1)

    def since(self, older: "EndedRequests") -> "EndedRequests":
        """What was counted after ``older``, of the same totals. Never negative."""
        return self._combined(older, -1)

    def _combined(self, other: "EndedRequests", sign: int) -> "EndedRequests":
        counts = {
            name: max(getattr(self, name) + sign * getattr(other, name), 0)
            for name in self.__struct_fields__
            if name != "errors"
        }
        errors = {
            reason: count
            for reason in self.errors | other.errors
            if (count := self.errors.get(reason, 0) + sign * other.errors.get(reason, 0)) > 0
        }
        return EndedRequests(**counts, errors=errors)
