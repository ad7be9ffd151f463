"""How exchanges end that no replica has answered, and the books that every end closes."""

from __future__ import annotations

from time import monotonic

from routing.contract.telemetry import FleetCounters
from routing.http.answers import answer
from routing.policies.refusal import Refusal
from routing.pool.one_replica import OneReplica
from routing.protocols.errors import error_answer
from routing.proxy import not_kept, search
from routing.proxy.destination import Unroutable, known_names
from routing.proxy.fleet_state import state_answer
from routing.proxy.local_answers import local_answer
from routing.proxy.plan import Plan
from routing.proxy.state import ExchangeState

_CHALLENGE = b'\r\nWWW-Authenticate: Bearer realm="switchyard"'
_CHALLENGE_ANEW = _CHALLENGE + b', error="invalid_token"'
"""RFC 6750 §3: what is asked for, and that what was given is not good."""


class Failure:
    """What to tell the client when no attempt is left. With ``is_error`` it counts as an error of the fleet,
    with ``is_answer`` as an answer. ``closes``: the connection serves no further request. ``fields``: further
    ones of the head, each preceded by CRLF. ``kind``: OpenAI's word for it, where it has one."""

    __slots__ = (
        "closes",
        "code",
        "fields",
        "is_answer",
        "is_error",
        "kind",
        "message",
        "retry_after_s",
        "status",
    )

    def __init__(self, status: int, code: str, message: str, retry_after_s: float = 0.0) -> None:
        self.is_error = status >= 500
        self.is_answer = True
        self.closes = False
        self.fields = b""
        self.kind = ""
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


def close_books(exchange: ExchangeState, *, answered: bool, failed: bool = False, now: float = 0.0) -> None:
    """The fleet's side of an end. ``failed``: with an error that was not the client's."""
    search.end(exchange)
    if exchange.use is not None:
        _end_use(exchange)
    pool = exchange.pool
    if pool is None:
        return
    counters = pool.counters
    counters.in_flight -= 1
    if answered:
        counters.answered += 1
        pool.observe(now - exchange.started)
    if failed:
        counters.errors += 1


def _end_use(exchange: ExchangeState) -> None:
    answer, pool = exchange.answer, exchange.pool
    if answer is None or pool is None:
        exchange.end_use(0)
        return
    output, prompt = answer.tokens(), answer.prompt_tokens()
    exchange.end_use(output + prompt, prompt_unsaid=not prompt and output > 0 and pool.protocol == "openai")


def answer_error(exchange: ExchangeState, failure: Failure) -> None:
    """Answer instead of a replica, in the shape of the caller's protocol."""
    exchange.answers_itself(failure.code)
    client, head = exchange.client, exchange.head
    protocol = spoken(exchange)
    keep = head.keep_alive and not failure.closes and client.may_go_on(True)
    request_id = exchange.request_id.decode("latin-1")
    content_type, body = error_answer(
        protocol, failure.status, failure.code, failure.message, request_id, failure.kind
    )
    fields = b"\r\nVia: 1.1 %b\r\nX-Request-Id: %b%b%b" % (
        exchange.proxy.via_name,
        exchange.request_id,
        exchange.retried,
        failure.fields,
    )
    if protocol == "anthropic":
        fields += b"\r\nrequest-id: " + exchange.request_id
    if failure.status == 401:
        fields += _CHALLENGE if failure.code == "client_key_missing" else _CHALLENGE_ANEW
    if failure.retry_after_s:
        fields += b"\r\nRetry-After: %d" % max(1, round(failure.retry_after_s))
    client.write(
        answer(
            failure.status,
            content_type,
            body,
            fields=fields,
            close=not keep,
            head_only=head.method == b"HEAD",
        )
    )
    now = monotonic()
    close_books(exchange, answered=failure.is_answer, failed=failure.is_error, now=now)
    client.finish(now, keep)


def spoken(exchange: ExchangeState) -> str:
    """The protocol that the caller is answered in: the fleet's, where it is known. Of the two that servers of
    the OpenAI API speak, the path tells."""
    head, pool = exchange.head, exchange.pool
    if head.note is None:
        head.note = exchange.proxy.plans.plan(head)
    assert isinstance(head.note, Plan)
    by_path = head.note.protocol
    if pool is None or (pool.protocol == "openai" and by_path == "anthropic"):
        return by_path
    return pool.protocol


def answer_too_late(exchange: ExchangeState) -> None:
    """The client's own time limit has passed: that says nothing about replica or fleet."""
    words = f"the request's own time limit of {exchange.head.time_limit_s:g} s has passed"
    failure = Failure(504, "request_timeout", words)
    failure.is_error = failure.is_answer = False
    if exchange.pool is not None:
        exchange.pool.counters.cancelled += 1
    answer_error(exchange, failure)


def refuse(exchange: ExchangeState, error: Unroutable) -> None:
    """There is no fleet for this request."""
    proxy, message = exchange.proxy, error.message
    proxy.rejected += 1
    if error.lists_fleets:
        message = f"{message}; {known_names(proxy.table, exchange.may_use)}"
    failure = Failure(error.status, error.code, message, error.retry_after_s)
    failure.closes = error.closes
    answer_error(exchange, failure)


def no_replica(exchange: ExchangeState, refusal: Refusal, failure: Failure | None) -> None:
    """The pool has nobody (left). ``failure``: of the attempt before, which says more."""
    assert exchange.pool is not None
    if isinstance(exchange.tried, OneReplica):
        failure = Failure(*not_kept.answer_to(refusal, exchange.tried.finishes))
    elif failure is None:
        _count(exchange.pool.counters, refusal.code)
        failure = Failure(refusal.status, refusal.code, refusal.message, refusal.retry_after_s or 0.0)
    answer_error(exchange, failure)


def _count(counters: FleetCounters, code: str) -> None:
    """The line counts those that it has no room for by itself."""
    if code == "fleet_cold":
        counters.cold += 1
    elif not code.startswith("queue_"):
        counters.no_replica += 1


def answer_locally(exchange: ExchangeState) -> None:
    client, head = exchange.client, exchange.head
    keep = head.keep_alive and client.may_go_on(True)
    fields = b"\r\nX-Request-Id: " + exchange.request_id
    client.write(local_answer(exchange.proxy.table, head, fields, not keep, exchange.may_use))
    client.finish(monotonic(), keep)


def answer_for_fleet(exchange: ExchangeState, plan: Plan) -> bool:
    """Whether what is asked about a fleet's state is answered here. Raises :class:`Unroutable`."""
    said = state_answer(exchange, plan)
    if said is None:
        return False
    client, head = exchange.client, exchange.head
    status, body = said
    keep = head.keep_alive and client.may_go_on(True)
    fields = b"\r\nX-Request-Id: " + exchange.request_id
    head_only = head.method == b"HEAD"
    client.write(answer(status, "application/json", body, fields=fields, close=not keep, head_only=head_only))
    if exchange.use is not None:
        exchange.end_use(0)
    client.finish(monotonic(), keep)
    return True
