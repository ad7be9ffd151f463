"""Clients that ask without a pause, by fresh connections, kept ones and streams, and note what fails."""

import contextlib
import http.client
import threading
from collections.abc import Callable
from typing import NamedTuple

from tests.proxy_process import LIMIT_S, Proxy, until


class Failure(NamedTuple):
    client: str
    answered_before: int
    problem: str


class Traffic:
    """One client of each kind (and so many of those that keep their connection). No request is repeated: the
    first that is not answered whole is a failure."""

    def __init__(self, proxy: Proxy, keeping: int = 2) -> None:
        self._port = proxy.port
        self.answered: dict[str, int] = {}
        self.failures: list[Failure] = []
        self._enough = threading.Event()
        self._threads = [self._thread("fresh", self._fresh), self._thread("streams", self._streams)]
        self._threads += [self._thread(f"kept {n}", self._kept) for n in range(keeping)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        self.more()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def more(self, count: int = 2) -> None:
        """Wait until each client has had so many further answers."""
        target = {name: done + count for name, done in self.answered.items()}

        def reached() -> bool:
            return bool(self.failures) or all(self.answered[name] >= target[name] for name in target)

        until(reached, "requests are answered")

    def _thread(self, name: str, work: Callable[[str], None]) -> threading.Thread:
        self.answered[name] = 0

        def run() -> None:
            try:
                work(name)
            except Exception as problem:
                self.failures.append(Failure(name, self.answered[name], repr(problem)))

        return threading.Thread(target=run, daemon=True)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)

    def _ask(self, name: str, connection: http.client.HTTPConnection, path: str) -> None:
        connection.request("POST", path, b"{}")
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200 or (path == "/slow" and said != b"firstlast"):
            raise AssertionError(f"{answer.status} {said!r}")
        self.answered[name] += 1

    def _fresh(self, name: str) -> None:
        while not self._enough.is_set():
            with contextlib.closing(self._connection()) as connection:
                self._ask(name, connection, "/")

    def _kept(self, name: str) -> None:
        """Over one connection until the proxy says that it ends; a short pause now and then."""
        with contextlib.closing(self._connection()) as connection:
            while not self._enough.is_set():
                self._ask(name, connection, "/")
                if self.answered[name] % 16 == 0:
                    self._enough.wait(0.02)

    def _streams(self, name: str) -> None:
        """Each answer takes a while; the next request comes at once, over the same connection."""
        with contextlib.closing(self._connection()) as connection:
            while not self._enough.is_set():
                self._ask(name, connection, "/slow")
