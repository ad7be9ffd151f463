"""Stickiness errors: the reply to a request for a stored response whose replica gets no requests.

No other replica has the stored response, so none is tried instead. If waiting does not help, a turn of a
conversation gets the error that OpenAI's API has for it (400, ``previous_response_not_found``). Clients that
know the error send the whole conversation again, which can go to any replica.
"""

from routing.balancing.admission.rejection import Rejection

ReplyArguments = tuple[int, str, str, float]
"""Status, code, message, Retry-After in seconds (0: none)."""

_ANEW = "send the whole conversation again, without previous_response_id or conversation"


def sticky_error(refusal: Rejection, only_finishes: bool) -> ReplyArguments:
    """``only_finishes``: the request only reads or ends a stored response; otherwise it continues from it."""
    message, wait_s = refusal.message, refusal.retry_after_s or 0.0
    if refusal.code == "replica_gone":
        return gone(message, only_finishes)
    if only_finishes:
        return 503, "response_unavailable", f"{message}; try again", wait_s or 1.0
    if refusal.code == "replica_closed":
        return 400, "previous_response_not_found", f"{message}; {_ANEW}", 0.0
    return 503, "response_unavailable", f"{message}; try again, or {_ANEW}", wait_s


def gone(message: str, only_finishes: bool) -> ReplyArguments:
    """The stored response is lost for good."""
    if only_finishes:
        return 404, "response_not_found", message, 0.0
    return 400, "previous_response_not_found", f"{message}; {_ANEW}", 0.0
