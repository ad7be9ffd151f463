"""Whether an attempt that failed may be made again elsewhere, and how it counts.

R1: no request byte was written: any method. R2: the request was written, no response byte came:
idempotent methods (RFC 9110 §9.2.2) and calls that keep no state. An answer, whatever its status, and an
attempt that ran into a time limit are never repeated; but for one: a replica that answers an inference call
of the Open Inference Protocol with 404 does not have the model (any more), so another is asked, once.
"""

from routing.contract.policy import ReplaySafe
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.outcome import Outcome

MOST_EXTRA_TRIES = 2

_RETRIES = b"\r\nx-switchyard-retries: "
_REASON = b"\r\nx-switchyard-retry-reason: "
_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})
_STATELESS = (b"/chat/completions", b"/completions", b"/embeddings", b"/rerank")


def replay_is_safe(head: RequestHead, policy: ReplaySafe) -> bool:
    """R2 for one request. ``auto``: inference that keeps no state is safe to send twice."""
    if head.method in _IDEMPOTENT or policy == "always":
        return True
    if head.method != b"POST" or policy == "never":
        return False
    path = head.target.partition(b"?")[0]
    return path.endswith(_STATELESS) or (path.startswith(b"/v2/models/") and path.endswith(b"/infer"))


def may_lack_model(request: RequestHead, answer: ResponseHead) -> bool:
    """Whether the answer says that the replica does not have the model. Not where the client named a version:
    that may be one that no replica has."""
    if answer.status != 404 or request.method != b"POST":
        return False
    path = request.target.partition(b"?")[0]
    return path.startswith(b"/v2/models/") and path.endswith(b"/infer") and path.count(b"/") == 4


def outcome_of(head: ResponseHead) -> Outcome:
    """How a complete answer counts for its replica."""
    status = head.status
    if status < 400:
        return Outcome.SUCCESS
    if status == 429 or (status == 503 and head.retry_after):
        return Outcome.REJECTED
    return Outcome.FAILED if status >= 500 else Outcome.CLIENT_ERROR


def retried_because(before: bytes, code: str) -> bytes:
    """The fields that tell the client of one more attempt. ``before``: those of the attempts before."""
    count, _, reasons = before.removeprefix(_RETRIES).partition(_REASON)
    reasons = reasons + b", " + code.encode() if reasons else code.encode()
    return b"%b%d%b%b" % (_RETRIES, int(count or 0) + 1, _REASON, reasons)
