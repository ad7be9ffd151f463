"""Hang detection: a statement that a server leaves unanswered for ever ends as an error.

No time limit of libpq or of the server ends it where the server's processes are stopped or swap, or its disk
hangs: the kernel still acknowledges what is sent, and ``statement_timeout`` is the server's own clock. A slow
statement looks the same. So once one has been silent for SILENT_S, a thread asks the server something that
needs no login (SSLRequest) on a connection of its own. While it gives no answer the server hangs: what waits
ends, new connections are refused at once, and the thread goes on asking. A login that takes longer than it
may (``connect_timeout``) counts as a hang at once.

A pooler in between (PgBouncer) answers that for a server that hangs. For this there is the last limit, a
little longer than the server's own for a statement.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import psycopg

SILENT_S = 2.0
"""Without a response for so long the server is asked whether it responds at all."""
KNOWN_SILENT_S = 0.5
"""The same once it is known to hang."""
ANSWER_S = 2.0
"""It is to answer that within this."""
ASK_EVERY_S = 1.0
LAST_LIMIT_S = 40.0
"""For a statement, whoever answers meanwhile. Longer than ``statement_timeout``."""

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""Length and code of an SSLRequest (PostgreSQL's protocol, "SSL Session Encryption")."""

logger = logging.getLogger(__name__)


class ServerHangs(psycopg.OperationalError):
    """It was not asked, or has not answered."""


class NoAnswer(ServerHangs):
    """The statement may be carried out all the same once the server goes on."""


class ServerAddress(NamedTuple):
    """Of a server: a folder and a port, or an address and a port."""

    host: str
    port: int

    @classmethod
    def named(cls, parameters: Mapping[str, Any]) -> "ServerAddress | None":
        """That a connection is to be made to; ``None``: it is one of several, or libpq's default."""
        host, port = str(parameters.get("host") or ""), str(parameters.get("port") or 5432)
        return cls(host, int(port)) if host and "," not in host and port.isdigit() else None

    def connect(self) -> socket.socket:
        """Raises OSError; TimeoutError: it did not answer in time."""
        if not self.host.startswith("/"):
            return socket.create_connection((self.host, self.port), timeout=ANSWER_S)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(f"{self.host}/.s.PGSQL.{self.port}")
        except OSError:
            connection.close()
            raise
        return connection


def responds(place: ServerAddress) -> bool:
    """Whether the server does. One that refuses connections does: statements and logins see it at once."""
    try:
        with closing(place.connect()) as connection:
            connection.sendall(SSL_REQUEST)
            connection.recv(1)
    except TimeoutError:
        return False
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # the backlog of a stopped server's socket is full
    return True


class HangDetector:
    """Of the process's one server. Safe in threads."""

    def __init__(
        self, asks: Callable[[ServerAddress], bool] = responds, every_s: float = ASK_EVERY_S
    ) -> None:
        self._asks = asks
        self._every_s = every_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._since: float | None = None
        self.place: ServerAddress | None = None
        """Of the last connection that was made."""

    @property
    def hangs(self) -> bool:
        return self._since is not None

    def check(self) -> None:
        """Raises ServerHangs while it does."""
        since = self._since
        if since is not None:
            self.suspect()  # a fork may have left the thread behind
            raise ServerHangs(f"PostgreSQL has not responded for {time.monotonic() - since:.0f} s")

    def suspect(self) -> None:
        """Have the server asked, unless it is already."""
        with self._lock:
            if self.place is not None and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._ask, args=(self.place,), name="postgres-probe", daemon=True
                )
                self._thread.start()

    def login_timed_out(self, place: ServerAddress | None) -> None:
        """At a server that hangs each login would take as long."""
        self.place = place or self.place
        if self.place is not None:
            self._begin()
            self.suspect()

    def _begin(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
            logger.warning("PostgreSQL does not respond: statements fail at once until it does")

    def _ask(self, place: ServerAddress) -> None:
        while not self._asks(place):
            self._begin()
            time.sleep(self._every_s)
        since, self._since = self._since, None
        if since is not None:
            logger.warning("PostgreSQL responds again, after %.1f s", time.monotonic() - since)
        else:
            time.sleep(self._every_s)  # so that a slow statement has it asked once a second


detector = HangDetector()


def guard(connection: Any, watch: HangDetector = detector) -> None:
    """What waits for this connection of psycopg ends when its server hangs, and closes it."""
    info = connection.info
    watch.place = ServerAddress(info.hostaddr or info.host, info.port)
    wait = connection.wait

    def guarded(generator: Any, *args: Any, **kwargs: Any) -> Any:
        limit_s = getattr(connection, "last_limit_s", LAST_LIMIT_S)
        try:
            return wait(_limited(generator, watch, limit_s), *args, **kwargs)
        except ServerHangs:
            connection.close()  # its answer would be taken for that of the next statement
            raise

    connection.wait = guarded


def lift(connection: Any) -> None:
    """What may take long: without the last limit."""
    connection.last_limit_s = float("inf")


def _limited(
    generator: "Generator[Any, Any, Any]", watch: HangDetector, limit_s: float
) -> "Generator[Any, Any, Any]":
    """As psycopg's generator, which is resumed ten times a second while there is nothing to read."""
    began = time.monotonic()
    try:
        state = next(generator)
        while True:
            ready = yield state
            if not ready:
                _look(time.monotonic() - began, watch, limit_s)
            state = generator.send(ready)
    except StopIteration as done:
        return done.value


def _look(silent_s: float, watch: HangDetector, limit_s: float) -> None:
    if silent_s >= SILENT_S:
        watch.suspect()
    if watch.hangs and silent_s >= KNOWN_SILENT_S:
        raise NoAnswer("PostgreSQL does not respond")
    if silent_s >= limit_s:
        raise NoAnswer(f"PostgreSQL has not responded for {silent_s:.0f} s")
