"""Authentication: an exchange where client keys are in use. Without any the plain exchange is used.

The key and its limits are checked when the request's head is complete, before a byte of its body is searched.
Whether the key may use the fleet is checked as soon as the fleet is known, before anything is counted or a
connection opened. Local replies (the list of models) do not count as use of the key.
"""

from __future__ import annotations

from collections.abc import Container
from math import ceil

from routing.balancing.pool.pool import Pool
from routing.contract.ended_requests import reason_of_status
from routing.http.response_head import ResponseHead
from routing.proxy.auth.client_keys import EVERYBODY, KeyGrant
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import local_reply
from routing.proxy.exchange.client_address import client_address
from routing.proxy.exchange.exchange import Exchange
from routing.proxy.exchange.model_list import shortened
from routing.proxy.exchange.route import LOCAL, RequestRoute
from routing.proxy.exchange.upstream_request import without_field
from routing.proxy.limits.rate_limit_response import over_limit_reply
from routing.shared.key_quota import MOST_ESTIMATED_BYTES, KeyQuota

_NOBODY = KeyGrant(frozenset())
_HOW = "send it as Authorization: Bearer sy-… or as x-api-key"


class AuthenticatedExchange(Exchange):
    """Responds with 401 to a request without a known key, with 403 if the key is for other fleets, with 429
    over the key's limits.

    Calls :class:`Exchange` by its name: ``super()`` takes longer than looking up the key.
    """

    __slots__ = ("_grant", "_reserved")

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        grant = proxy.keys.grant(head.key) if head.key is not None else None
        if grant is None:
            if proxy.keys_optional:
                self._grant = EVERYBODY
                Exchange.begin(self, body, complete)
                return
            self._grant = _NOBODY
            # The route says which protocol the caller uses.
            if head.route is None:
                head.route = proxy.routes.route_of(head)
            local_reply.refuse(self, self._refusal())
            return
        self._grant = grant
        if grant.quota is None or self._is_let_in(grant.quota):
            Exchange.begin(self, body, complete)

    def _is_let_in(self, quota: KeyQuota) -> bool:
        """Whether the key's limits admit the request. If not, the 429 has been sent."""
        head, proxy = self.head, self.proxy
        route: RequestRoute | None = head.route  # type: ignore[assignment]
        if route is None:
            head.route = route = proxy.routes.route_of(head)
        if route.kind == LOCAL:
            return True
        reserved = 0
        if quota.token_cells is not None:
            # The size of a chunked body is not known in advance.
            reserved = quota.estimate(MOST_ESTIMATED_BYTES if head.chunked else head.content_length)
        exceeded = quota.begin(reserved)
        if exceeded is not None:
            proxy.rejected += 1
            local_reply.send_local_reply(self, over_limit_reply(exceeded, local_reply.client_protocol(self)))
            return False
        if quota.token_cells is not None:
            # The tokens of a compressed response could not be counted. The head is cached for equal heads of
            # the connection, so these lose the field too. That does no harm, even once the limit is removed.
            head.fields = without_field(b"accept-encoding:", head.fields)
            if head.upgrade:
                # Nor could those of compressed messages.
                head.fields = without_field(b"sec-websocket-extensions:", head.fields)
        self.quota = quota
        self._reserved = reserved
        return True

    def recheck(self, narrowed: Container[object]) -> None:
        """A key that was revoked, or that no longer opens the fleet, ends its requests in flight too."""
        if not self.end_if(self._objection):
            Exchange.recheck(self, narrowed)

    def _objection(self) -> RoutingError | None:
        """Why the keys in force no longer allow the request; ``None``: they do."""
        grant, head, proxy = self._grant, self.head, self.proxy
        if grant is EVERYBODY or grant is _NOBODY or head.key is None:
            return None
        found, pool, fallen = proxy.keys.grant(head.key), self.pool, self.fallen_back
        if fallen is not None and fallen.included:
            pool = fallen.first
        if found is None:
            return RoutingError(401, "client_key_unknown", "the client key has been revoked")
        if pool is None or found.opens(pool.name) or pool.name not in proxy.table.fleets:
            # The requests of a fleet that was deleted finish, whatever their key.
            self._grant = found
            return None
        return _not_for(pool.name, found)

    def settle_quota(self, tokens: int, prompt_tokens_unknown: bool = False) -> None:
        quota = self.quota
        assert quota is not None
        self.quota = None
        quota.end(self._reserved, tokens, prompt_tokens_unknown)

    def settle_quota_from_body(
        self, head: ResponseHead, usage: tuple[int, int] | None, output: int, bucket: int
    ) -> None:
        quota = self.quota
        assert quota is not None
        self.quota = None
        counts = quota.counts
        # As KeyCounts.answered, without the call.
        latency = counts.latency
        latency[bucket] = latency.get(bucket, 0) + 1
        if head.unusual and head.status >= 500:
            counts.failed(reason_of_status(head.status))
        if usage is not None:
            quota.end(self._reserved, usage[1])
        else:
            quota.end(self._reserved, output, output > 0)

    def dispatch(self, pool: Pool, now: float) -> None:
        if not self.may_use(pool.name):
            raise _not_for(pool.name, self._grant)
        Exchange.dispatch(self, pool, now)

    def fleet_of_key(self) -> Pool | None:
        if len(self._grant.fleets) != 1:
            return None
        (fleet,) = self._grant.fleets
        return self.proxy.table.fleets.get(fleet)

    def may_use(self, fleet: str) -> bool:
        return self._grant.opens(fleet)

    def caller(self) -> bytes:
        address = client_address(self.client, self.head)
        return address if self._grant is EVERYBODY else self.head.key or address

    def priority(self) -> int:
        return self._grant.priority

    def weight(self) -> float:
        return self._grant.weight

    def _refusal(self) -> RoutingError:
        if not self.proxy.keys and self.proxy.keys.required:
            made = self.proxy.where_keys_are_made
            words = f"client keys are required, and none is in force: {made}, then {_HOW}"
            return RoutingError(401, "client_key_missing", words)
        if not self.proxy.keys:
            words = (
                "this proxy can be reached from other machines and no client key exists yet: "
                f"{self.proxy.where_keys_are_made}, then {_HOW}; or start the proxy with --open"
            )
            return RoutingError(401, "client_key_missing", words)
        if self.head.key is None:
            return RoutingError(401, "client_key_missing", f"the request carries no client key: {_HOW}")
        address = client_address(self.client, self.head).decode("latin-1")
        wait_s = self.proxy.key_guesses.wait_s(address, self.started)
        if wait_s:
            words = f"too many unknown client keys: wait {ceil(wait_s)} s; valid ones are served meanwhile"
            return RoutingError(429, "too_many_unknown_keys", words, ceil(wait_s), closes=True)
        words = "the client key is unknown: it was mistyped or cut off, or it has been revoked"
        return RoutingError(401, "client_key_unknown", words)


def _not_for(fleet: str, grant: KeyGrant) -> RoutingError:
    names = sorted(grant.fleets)
    listed = f"it may use {shortened(names)}" if names else "its fleets were deleted"
    words = f"this client key may not use fleet {fleet!r}: {listed}"
    return RoutingError(403, "client_key_not_for_fleet", words)
