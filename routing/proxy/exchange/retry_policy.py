"""Retry policy: whether a failed attempt may be repeated at another replica (replay), and how it counts.

Rules, numbered as in the tests:

- R1: no request byte was written: any method.
- R2: the request was written, and nothing of a response was forwarded: no byte came, or none that makes a
  valid head. Idempotent methods (RFC 9110 §9.2.2) and stateless calls, once.
- R5: the replica responded, and nothing of it was forwarded: safe methods and stateless calls, if the policy
  lists the status. After 500 once: a request that no replica can serve would be tried at three. Not where
  most of the others answer so as well (:mod:`routing.balancing.outlier.resting`).

An attempt that ran into a time limit is never retried, nor is any other response. The one exception: a
replica that answers an inference call of the Open Inference Protocol with 404 does not have the model (any
more), so another replica is tried, once.

R5 has no back-off for the request: the replica rests, and others are asked. If no other is left, the client
gets the response unchanged, and waits itself. To hold the request back would cost the proxy memory, and the
client would not learn of the overload.
"""

import re

from routing.balancing.attempt.outcome import Outcome
from routing.contract.policy import ReplaySafe, Retries
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead

MAX_EXTRA_ATTEMPTS = 2
"""Of one request, besides its first that was sent: retries, a second replica and continuations together."""
MAX_NEVER_SENT = 10
"""After attempts that reached no replica. Where most of a fleet has just died, the first requests come upon
several of those."""
LACKS_MODEL = "model_not_loaded"

_RETRIES = b"\r\nx-switchyard-retries: "
_REASON = b"\r\nx-switchyard-retry-reason: "
_SAFE = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})
_STATELESS = (
    *(b"/chat/completions", b"/completions", b"/embeddings", b"/rerank", b"/v1/score", b"/v2/embed"),
    *(b"/v1/messages", b"/v1/messages/count_tokens"),
    *(b"/v1/audio/transcriptions", b"/v1/audio/translations"),
)

_INFER = re.compile(rb"(?:/fleets/[^/]++)?/v2/models/[^/]++(/versions/[^/]++)?/infer\Z")


def replay_is_safe(head: RequestHead, protocol: str, policy: ReplaySafe) -> bool:
    """R2 for one request. ``auto``: stateless inference is safe to send twice. ``protocol``: of the fleet. If
    it is generic, nothing is known about a path that looks like an inference call."""
    if head.method in _IDEMPOTENT or policy == "always":
        return True
    if head.method != b"POST" or policy == "never" or protocol == "generic":
        return False
    path = head.target.partition(b"?")[0]
    return path.endswith(_STATELESS) or _INFER.match(path) is not None


def retry_reason(request: RequestHead, answer: ResponseHead, protocol: str, policy: Retries) -> str:
    """Why this error response may be retried at another replica, as a code; empty: it is forwarded to the
    client."""
    status = answer.status
    if status in policy.statuses:
        reason = f"status_{status}"
    elif status == 404 and protocol == "open-inference" and _may_lack_model(request):
        reason = LACKS_MODEL
    else:
        return ""
    if request.method in _IDEMPOTENT and request.method not in _SAFE and policy.replay_safe != "always":
        # It was carried out, or not: the client is to know what its replica said.
        return ""
    return reason if replay_is_safe(request, protocol, policy.replay_safe) else ""


def is_answer(status: int, policy: Retries) -> bool:
    """Whether a response with this status ends a request of which another attempt is under way: it is no
    failure of the replica."""
    return status < 500 and status not in (404, 408, 429) and status not in policy.statuses


def is_second_server_error(reason: str, before: bytes) -> bool:
    """Whether this is a 500, and the request was retried for one. ``before``: the fields of its retries."""
    return reason == "status_500" and before.find(b"status_500") >= 0


def _may_lack_model(request: RequestHead) -> bool:
    """Whether 404 means that the replica does not have the model. Not if the client named a version: perhaps
    no replica has that."""
    if request.method != b"POST":
        return False
    infer = _INFER.match(request.target.partition(b"?")[0])
    return infer is not None and infer[1] is None


def outcome_of(head: ResponseHead) -> Outcome:
    """How a complete response counts for its replica."""
    status = head.status
    if status < 400:
        return Outcome.SUCCESS
    if status == 429 or (status == 503 and head.retry_after):
        return Outcome.REJECTED
    return Outcome.FAILED if status >= 500 else Outcome.CLIENT_ERROR


def add_retry_fields(before: bytes, code: str) -> bytes:
    """The header fields for one more retry. ``before``: the fields for the retries before, behind others."""
    others, _, retries = before.partition(_RETRIES)
    count, _, reasons = retries.partition(_REASON)
    reasons = reasons + b", " + code.encode() if reasons else code.encode()
    return b"%b%b%d%b%b" % (others, _RETRIES, int(count or 0) + 1, _REASON, reasons)


def add_fallback_fields(before: bytes, fields: bytes) -> bytes:
    """The same with the fields of a fallback, in place of those of the fallback before."""
    _, found, retries = before.partition(_RETRIES)
    return fields + found + retries
