"""An exchange where client keys are asked for. Where they are not, the plain one is made and knows no keys.

The key is looked at when the request's head is there, before a byte of its body is searched; whether it opens
the fleet, as soon as that is known, before anything is counted or dialled.
"""

from __future__ import annotations

from routing.http.request_head import RequestHead
from routing.http.roles import Client
from routing.pool import Pool
from routing.proxy import ends
from routing.proxy.client_keys import Grant
from routing.proxy.destination import Unroutable
from routing.proxy.exchange import Exchange
from routing.proxy.host import Host

_MOST_NAMES = 20
_NOBODY = Grant(frozenset())
_HOW = "send it as Authorization: Bearer sy-… or as x-api-key"


class GuardedExchange(Exchange):
    """Answers 401 to a request without a known key, 403 where the key is for other fleets."""

    __slots__ = ("_grant",)

    def __init__(self, proxy: Host, client: Client, head: RequestHead) -> None:
        super().__init__(proxy, client, head)
        self._grant = _NOBODY

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        grant = proxy.keys.grant(head.key) if head.key is not None else None
        if grant is None:
            # The plan says what the caller speaks.
            if head.note is None:
                head.note = proxy.plans.plan(head)
            ends.refuse(self, self._refusal())
            return
        self._grant = grant
        super().begin(body, complete)

    def take(self, pool: Pool, now: float) -> None:
        if not self.may_use(pool.name):
            raise _not_for(pool.name, self._grant)
        super().take(pool, now)

    def named_by_key(self) -> Pool | None:
        if len(self._grant.fleets) != 1:
            return None
        (fleet,) = self._grant.fleets
        return self.proxy.table.fleets.get(fleet)

    def may_use(self, fleet: str) -> bool:
        return self._grant.opens(fleet)

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
