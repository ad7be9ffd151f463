"""An exchange where client keys are asked for. Where they are not, the plain one is made and knows no keys.

The key is looked at when the request's head is there, before a byte of its body is searched, and its limits
with it; whether it opens the fleet, as soon as that is known, before anything is counted or dialled. What the
proxy answers by itself (the list of models) is no use of the key.
"""

from __future__ import annotations

from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.roles import Client
from routing.pool.pool import Pool
from routing.protocols import openai
from routing.proxy import ends, over_limit
from routing.proxy.client_keys import Grant
from routing.proxy.destination import Unroutable
from routing.proxy.exchange import Exchange
from routing.proxy.forwarded import without
from routing.proxy.host import Host
from routing.proxy.plan import LOCAL
from routing.shared.key_use import MOST_ESTIMATED_BYTES, KeyUse

_MOST_NAMES = 20
_NOBODY = Grant(frozenset())
_HOW = "send it as Authorization: Bearer sy-… or as x-api-key"


class GuardedExchange(Exchange):
    """Answers 401 to a request without a known key, 403 where the key is for other fleets, 429 over the key's
    limits.

    Calls :class:`Exchange` by its name: a ``super()`` takes longer than looking the key up.
    """

    __slots__ = ("_grant", "_reserved", "use")

    def __init__(self, proxy: Host, client: Client, head: RequestHead) -> None:
        Exchange.__init__(self, proxy, client, head)
        self.use = None

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        grant = proxy.keys.grant(head.key) if head.key is not None else None
        if grant is None:
            self._grant = _NOBODY
            # The plan says what the caller speaks.
            if head.note is None:
                head.note = proxy.plans.plan(head)
            ends.refuse(self, self._refusal())
            return
        self._grant = grant
        if grant.use is None or self._is_let_in(grant.use):
            Exchange.begin(self, body, complete)

    def _is_let_in(self, use: KeyUse) -> bool:
        """Whether the key's limits allow the request; else it has been answered."""
        head = self.head
        if head.note is None:
            head.note = self.proxy.plans.plan(head)
        if head.note.kind == LOCAL:  # type: ignore[attr-defined]
            return True
        reserved = 0
        if use.reservations is not None:
            # A body that comes in chunks does not say how large it is.
            reserved = use.estimate(MOST_ESTIMATED_BYTES if head.chunked else head.content_length)
        excess = use.begin(reserved)
        if excess is not None:
            over_limit.refuse(self, excess)
            return False
        if use.reservations is not None:
            # The tokens of a compressed answer could not be counted. A head that comes again on the
            # connection is this very one: it stays so, which serves its key also without the limit.
            head.fields = without(b"accept-encoding:", head.fields)
        self.use = use
        self._reserved = reserved
        return True

    def end_use(self, tokens: int, prompt_unsaid: bool = False) -> None:
        use = self.use
        assert use is not None
        self.use = None
        use.end(self._reserved, tokens, prompt_unsaid)

    def end_use_answered(
        self, head: ResponseHead, body: bytes, output_tokens: int, says_tokens: bool
    ) -> None:
        use, pool = self.use, self.pool
        assert use is not None
        assert pool is not None
        self.use = None
        if says_tokens:
            use.end(self._reserved, openai.tokens_used(body, output_tokens))
            return
        output = 0
        if pool.protocol == "openai" and head.block.find(b"text/event-stream") >= 0:
            events = openai.EventTokens()
            events.feed(body)
            output = events.total()
        use.end(self._reserved, output, output > 0)

    def take(self, pool: Pool, now: float) -> None:
        if not self.may_use(pool.name):
            raise _not_for(pool.name, self._grant)
        Exchange.take(self, pool, now)

    def named_by_key(self) -> Pool | None:
        if len(self._grant.fleets) != 1:
            return None
        (fleet,) = self._grant.fleets
        return self.proxy.table.fleets.get(fleet)

    def may_use(self, fleet: str) -> bool:
        return self._grant.opens(fleet)

    def caller(self) -> bytes:
        return self.head.key or self.client.peer

    def priority(self) -> int:
        return self._grant.priority

    def _refusal(self) -> Unroutable:
        if not self.proxy.keys:
            words = (
                "this proxy can be reached from other machines and no client key exists yet: "
                f"{self.proxy.where_keys_are_made}, then {_HOW}; or start the proxy with --open"
            )
            return Unroutable(401, "client_key_missing", words)
        if self.head.key is None:
            return Unroutable(401, "client_key_missing", f"the request carries no client key: {_HOW}")
        words = "the client key is not known here: it was mistyped or cut off, or it has been revoked"
        return Unroutable(401, "client_key_unknown", words)


def _not_for(fleet: str, grant: Grant) -> Unroutable:
    names = sorted(grant.fleets)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = f"it opens {', '.join(names[:_MOST_NAMES])}{more}" if names else "its fleets are gone"
    words = f"this client key is not for fleet {fleet!r}: {listed}"
    return Unroutable(403, "client_key_not_for_fleet", words)
