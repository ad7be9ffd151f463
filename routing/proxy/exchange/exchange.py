"""Exchange, downstream side: a client's request and its response, as the client's connection sees them.

:mod:`routing.proxy.exchange.state` has the fields and the theory,
:mod:`routing.proxy.exchange.upstream_exchange` the attempts and the response. The usual request passes
:meth:`Exchange.begin` and then :meth:`UpstreamExchange.response`, and nothing between them. Each of them
writes one joined piece of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from time import monotonic

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.http.errors import RequestRefused
from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.protocols.open_inference_server import ServerQuery
from routing.protocols.web_socket import POLICY_VIOLATION
from routing.proxy.errors import LocalReply, RoutingError
from routing.proxy.exchange import (
    exposure_guard,
    held_beginning,
    local_reply,
    router,
    second_attempt,
    sticky_routing,
    timeouts,
    tunnel,
)
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.request_body_buffer import HELD_BYTES
from routing.proxy.exchange.route import AMBIGUOUS, IN_BODY, LOCAL, LOOP, OF_SERVER, STICKY, RequestRoute
from routing.proxy.exchange.streaming_response import TunnelResponse
from routing.proxy.exchange.upstream_exchange import UpstreamExchange
from routing.proxy.limits import request_limits


class Exchange(UpstreamExchange):
    """Implements :class:`routing.http.interfaces.RequestHandler`, for client connections."""

    __slots__ = ()

    def __init__(self, proxy: ExchangeContext, client: Client, head: RequestHead) -> None:
        self.proxy = proxy
        self.client = client
        self.head = head
        self.started = self.progressed_at = monotonic()
        new_id, begin_trace = proxy.new_request_id, proxy.new_trace_parent
        self.request_id = head.request_id or new_id()
        self.trace = begin_trace() if head.trace is None else b""
        self.record = self.quota = None

        self.body_bytes = b""
        self.body_charge = None
        self.upload = None
        self.stream = False
        self.work = 0.0
        self.own_work = None
        self.model = ""
        self.pinned = None
        self.waiting = None

        self.pool = None
        self.attempt = None
        self.upstream = None
        self.cancel_connecting = None
        self.tried = ()
        self.never_sent = self.extra_attempts = 0
        self.second = self.held = None
        self.retry_fields = b""
        self.repeatable = True
        self.streaming_response = None

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        route: RequestRoute | None = head.route  # type: ignore[assignment]
        if route is None:
            head.route = route = proxy.routes.route_of(head)
        kind = route.kind
        try:
            router.receive(self, body, complete)
            if kind == IN_BODY:
                if complete:
                    self.dispatch(router.route_by_body(self), self.started)
                else:
                    self._collect(len(body), False)
            elif kind < LOCAL:
                pool = router.route_by_head(self, route, body, complete)
                if pool is None:
                    self._collect(len(body), True)
                else:
                    if not complete:
                        router.begin_streaming(self)
                    self.dispatch(pool, self.started)
            elif kind in (LOCAL, OF_SERVER):
                if complete or route.server_query is not ServerQuery.INDEX:
                    self._reply_or_dispatch(route, body, complete)
                else:
                    # It may ask for models that are ready only.
                    self._collect(len(body), False)
            elif kind == LOOP:
                words = (
                    "routing loop: the request has passed this proxy before; a replica's URL leads back to it"
                )
                raise RoutingError(508, "loop", words)
            elif kind == AMBIGUOUS:
                raise router.ambiguous_path(route.target)
            elif complete:
                self._dispatch_sticky(self.client.head_s)
            else:
                self._collect(len(body), False)
        except RoutingError as error:
            local_reply.refuse(self, error)

    def _collect(self, size: int, known: bool) -> None:
        """The first bytes of a body that is awaited have come. ``known``: the request's fleet is. Raises
        :class:`RoutingError`."""
        router.begin_collecting(self, known)
        pool = router.collect(self, size)
        if pool is not None:
            self.dispatch(pool, self.started)

    def body(self, piece: bytes, complete: bool) -> None:
        upload = self.upload
        assert upload is not None
        if upload.guard is not None and (why := upload.guard(piece, complete)) is not None:
            # The replica has not had the end, so it has begun nothing.
            self.refuse(RequestRefused(why.status, why.code, why.message))
            return
        if self.upstream is not None:
            self.send_more(upload, piece, complete)
            return
        upload.add(piece, complete)
        if self.body_charge is not None:
            self.proxy.bodies.grow(self.body_charge, len(piece), complete, monotonic())
        if self.pool is None:
            try:
                pool = router.collect(self, len(piece))
                if complete and pool is None:
                    pool = router.route_collected(self)
                if pool is not None:
                    request_limits.check_head_time(pool, upload.head_s)
                    # The time of the client's upload does not count for the replica.
                    self.dispatch(pool, monotonic())
                elif complete:
                    self._finish_collected(upload.head_s)
            except RoutingError as error:
                local_reply.refuse(self, error)
        elif not complete and (upload.held > HELD_BYTES or self.proxy.bodies.streams_are_short):
            self.client.pause_body()

    def _reply_or_dispatch(self, route: RequestRoute, body: bytes, complete: bool) -> None:
        """Reply to a request that is for the proxy. Of one about a named fleet that its replicas are to reply
        to, do as of any other. Raises :class:`RoutingError`."""
        if local_reply.reply_locally(self, route):
            return
        pool = router.route_by_head(self, route, body, complete)
        if pool is None:
            self._collect(len(body), True)
            return
        if not complete:
            router.begin_streaming(self)
        self.dispatch(pool, self.started)

    def _finish_collected(self, head_s: float) -> None:
        """The body is complete of a request whose fleet it does not tell. ``head_s``: seconds that its head
        took. Raises :class:`RoutingError`."""
        route = self.head.route
        assert isinstance(route, RequestRoute)
        if route.kind == STICKY:
            self._dispatch_sticky(head_s)
        elif not local_reply.reply_locally(self, route):
            pool = router.route_by_head(self, route, self.body_bytes, True)
            assert pool is not None, "all that it may need is here"
            request_limits.check_head_time(pool, head_s)
            self.dispatch(pool, monotonic())

    def _dispatch_sticky(self, head_s: float) -> None:
        """Dispatch a request that names or creates a stored response. ``head_s``: seconds that its head
        took."""

        def dispatch(pool: Pool, now: float) -> None:
            request_limits.check_head_time(pool, head_s)
            self.dispatch(pool, now)

        sticky_routing.route_sticky(self, dispatch)

    # --- the memory for its body (routing.proxy.limits.body_budget) ----------------------------------

    def pause_collecting(self) -> None:
        self.client.pause_body()

    def resume_collecting(self) -> None:
        self.client.resume_body()

    def refuse_body(self) -> None:
        local_reply.refuse(self, router.no_memory())

    def measure_upload(self) -> None:
        if self.body_charge is not None:
            router.body_sent(self)

    def end_upload(self) -> None:
        words = (
            "the proxy needs the memory of this request's body, of which the replica takes nothing; try again"
        )
        self.end(RoutingError(408, "upload_stalled", words))

    @property
    def neighbours(self) -> int:
        return self.proxy.connection_limit.neighbours(self.client)

    def refuse(self, error: RequestRefused) -> None:
        self.proxy.rejected += 1
        self.drop_attempt(Outcome.CANCELLED)
        if self.streaming_response is not None:
            local_reply.record_completion(self, "cut")
            self.client.abort(self.streaming_response.ends_with_connection)
        else:
            local_reply.send_local_reply(self, LocalReply(error.status, error.code, error.message))

    @property
    def allows_half_close(self) -> bool:
        # A client that asks for a WebSocket will send more.
        return self.pool is not None and self.pool.policy.half_close == "allow" and not self.head.upgrade

    def client_gone(self) -> None:
        if self.streaming_response is not None and self.streaming_response.is_tunnel:
            self.close_tunnel(monotonic(), "client_left")
            return
        self.drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        local_reply.record_completion(self, "client_left")

    def check(self, now: float) -> float:
        self.account_passthrough(now)
        response = self.streaming_response
        if isinstance(response, TunnelResponse) and tunnel.look_after(self, self.close_tunnel, response, now):
            return 0.0
        upload, pool = self.upload, self.pool
        if upload is not None and not upload.complete and pool is not None:
            request_limits.update_body_rate(self.client, pool, self.proxy.settings, upload.max_bytes)
        if timeouts.client_gave_up(self, now):
            self._give_up()
            return 0.0
        exceeded = timeouts.exceeded(self, now)
        if exceeded is None:
            if response is None and pool is not None:
                if pool.seconds.are_made:
                    second_attempt.look(self, now)
                if self.held is not None:
                    held_beginning.look(self, now)
            return 0.0 if self.streaming_response is None else timeouts.check_interval_s(self)
        self.time_out(exceeded)
        return 0.0

    def recheck(self, narrowed: Container[object]) -> None:
        """``narrowed``: pools whose fleet exposes something else than before. If it no longer exposes the
        request's path, the request ends: a WebSocket at once, others where they have not finished by
        themselves a moment later."""
        if self.pool is not None and self.pool in narrowed:
            self.end_if(partial(exposure_guard.objection, self, self.pool))

    def end_if(self, objection: Callable[[], RoutingError | None]) -> bool:
        """Whether there is one, which ends the request, now or soon."""
        error = objection()
        if error is None:
            return False
        response = self.streaming_response
        if response is not None and response.is_tunnel:
            self.end(error)
        else:
            self.proxy.rechecks.after_a_moment(partial(self._end_unfinished, objection))
        return True

    def _end_unfinished(self, objection: Callable[[], RoutingError | None]) -> None:
        error = objection() if self.client.exchange is self else None
        if error is not None:
            self.end(error)

    def end(self, error: RoutingError) -> None:
        """End the request, whatever its state: with this reply while there is no response, else by cutting
        the response off."""
        response = self.streaming_response
        if isinstance(response, TunnelResponse):
            reason = error.message.partition(":")[0]
            tunnel.end(self, self.close_tunnel, response, POLICY_VIOLATION, reason, error.code, monotonic())
            return
        self.drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        if response is None:
            reply = LocalReply(error.status, error.code, error.message)
            reply.is_answer = False
            local_reply.send_local_reply(self, reply)
        else:
            local_reply.record_completion(self, "cut", code=error.code)
            self.client.abort(response.ends_with_connection)

    def _give_up(self) -> None:
        """The client cancelled the request; its connection stays open."""
        self.drop_attempt(Outcome.CANCELLED)
        if self.streaming_response is None:
            local_reply.reply_client_timeout(self)
        else:
            assert self.pool is not None
            self.pool.counters.cancelled += 1
            local_reply.record_completion(self, "cut")
            self.client.abort(self.streaming_response.ends_with_connection)
