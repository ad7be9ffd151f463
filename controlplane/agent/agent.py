"""The agent's loop: watch the server, register it once it is ready, renew, and leave when told to.

Life of a replica. While the server has never been ready, it is not registered: models load for minutes. From
then on the lease is renewed at a third of its time for as long as anything answers at the readiness URL, also
while it says that it is not ready, for what that means is decided by Switchyard's own probes. For a server
that is gone nothing is renewed: its lease runs out, and probes find it gone. On SIGTERM the lease is
released, so that no new requests come; the agent waits until those in flight are finished and the replica is
removed.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from controlplane.agent.http import HttpCaller, NoReply, Reply

RETRY_S = 1.0
"""After a failure of the API, doubled up to LONGEST_RETRY_S."""
LONGEST_RETRY_S = 10.0
POLL_S = 0.5
"""While it leaves."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentSettings:
    lease_url: str
    """Of the API, the replica's name included."""
    token: Callable[[], str]
    """Read anew for each request, so that it can be replaced. Raises OSError."""
    replica: Mapping[str, Any]
    """What it says of itself."""
    ready_url: str
    period_s: float
    drain_s: float
    """How long it waits for requests in flight when it leaves."""


@dataclass
class Agent:
    settings: AgentSettings
    server: HttpCaller
    """How the server beside it is asked."""
    api: HttpCaller
    clock: Callable[[], float] = time.monotonic
    stopping: threading.Event = field(default_factory=threading.Event)
    _renew_at: float = 0.0
    _retry_s: float = RETRY_S
    _registered: bool = False
    _url: str = ""
    """Of the server, as Switchyard writes it; empty: an older one does not say."""
    _said: str = ""

    def run(self) -> int:
        """Until ``stopping`` is set. Exit status: 0, or 1 where requests may be in flight at the end."""
        while not self.stopping.is_set():
            due = self.clock() + self.settings.period_s
            self._step()
            wakes = min(due, self._renew_at) if self._registered else due
            self.stopping.wait(max(wakes - self.clock(), 0.05))
        return self._leave() if self._registered else 0

    def _step(self) -> None:
        answers, ready = self._ask_server()
        if self.clock() < self._renew_at or not (ready or (answers and self._registered)):
            return
        reply = self._call("PUT", self.settings.replica)
        if reply is not None and reply.status == 200:
            self._url = str(reply.body.get("url", ""))
            if not self._registered:
                logger.info("registered at %s", self.settings.lease_url)
            self._registered, self._retry_s = True, RETRY_S
            self._renew_at = self.clock() + reply.body["ttl_s"] / 3
            return
        self._renew_at = self.clock() + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _ask_server(self) -> tuple[bool, bool]:
        """Whether anything answers, and whether it is ready."""
        try:
            reply = self.server("GET", self.settings.ready_url)
        except NoReply as error:
            self._say(f"the server does not answer at {self.settings.ready_url}: {error}")
            return False, False
        ready = 200 <= reply.status < 300
        self._say("the server is ready" if ready else f"the server is not ready: status {reply.status}")
        return True, ready

    def _is_anothers(self, reply: Reply | None) -> bool:
        """Whether the name went to a server elsewhere, which is not to be taken out with this one."""
        if reply is None or reply.status == 404 or not self._url:
            return False
        return reply.status == 409 or reply.body.get("url", self._url) != self._url

    def _call(self, method: str, body: Any = None, query: str = "") -> Reply | None:
        """``None``: no answer. What is wrong is logged."""
        try:
            reply = self.api(method, self.settings.lease_url + query, body, self.settings.token())
        except (NoReply, OSError, ValueError) as error:
            logger.warning("%s of the lease failed: %s", method, error)
            return None
        if reply.status >= 400 and not (method != "PUT" and reply.status == 404):
            logger.warning("%s of the lease was refused: %s %s", method, reply.status, _words(reply))
        return reply

    def _leave(self) -> int:
        logger.info("leaving: no new requests, those in flight finish, %g s at most", self.settings.drain_s)
        ends, released = self.clock() + self.settings.drain_s, False
        while self.clock() < ends:
            if not released:
                reply = self._call("DELETE", query=f"?{urlencode({'url': self._url})}" if self._url else "")
                released = reply is not None and (reply.status < 400 or self._is_anothers(reply))
            else:
                reply = self._call("GET")
                leaves = reply is None or reply.status == 404 or reply.body.get("leaving") is True
                released = leaves or self._is_anothers(reply)
            if reply is not None and reply.status == 404:
                logger.info("the replica is gone from the fleet")
                return 0
            if self._is_anothers(reply):
                self._say("a server elsewhere has the name by now: requests in flight here may finish")
            time.sleep(POLL_S)
        logger.warning("ending with requests that may be in flight")
        return 1

    def _say(self, words: str) -> None:
        if words != self._said:
            logger.info("%s", words)
        self._said = words


def _words(reply: Reply) -> str:
    errors = reply.body.get("errors") or []
    return "; ".join(
        [str(reply.body.get("detail", "")), *(f"{one.get('pointer')}: {one.get('detail')}" for one in errors)]
    )
