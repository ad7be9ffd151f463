"""Name resolver: the addresses of replicas that have host names, looked up once and kept.

Theory. ``getaddrinfo`` blocks for as long as DNS is silent: tens of seconds. In a pool of threads that is
shared, a few such names hold up all others, those in ``/etc/hosts`` as well. So each lookup has a daemon
thread of its own, a name has one lookup at a time however many connections want it, and nobody waits who
knows an address:

- An answer is fresh for FRESH_S. After that the connection that uses it next has the name looked up in the
  background, and goes to the addresses of the last answer (stale-while-revalidate).
- A lookup that fails or hangs changes nothing: the last answer is used for as long as that lasts
  (serve-stale, RFC 8767). A name that DNS no longer has is treated alike: its server may well serve on.
- A connection that fails has the name looked up at once. Where the answer comes soon and differs, the
  connection is tried there, so that a replica that has moved is not failed over.
- For a newer answer than one that is OLD_S old, a connection waits briefly: the address may belong to another
  server by now.

Each answer is judged by the address policy whenever a connection is opened by it, so that no name leads to an
address at which no replica can be (DNS rebinding).

Only the first lookup of a name is waited for, within the connection's own time limit. A name is forgotten
with the last connection pool that has it.

Sources: Envoy's and gRPC's resolvers, which keep the last good addresses; glibc for the order of addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections import deque
from collections.abc import Callable
from threading import Thread
from time import monotonic
from weakref import WeakValueDictionary

from routing.contract import address_policy
from routing.contract.host_addresses import host_addresses
from routing.http.local_errors import local_error
from routing.ipc.descriptors import is_out_of_descriptors

log = logging.getLogger(__name__)

FRESH_S = 5.0
OLD_S = 60.0
BRIEFLY_S = 0.25
"""How long a connection that knows an address waits for a newer one, from the beginning of the lookup."""
SETTLED_S = 0.5
"""A connection that fails says nothing against an answer that is so new."""
MOST_LOOKUPS = 32
"""At a time, of all names. A thread each."""


class NameResolver:
    """The host names of one worker's replicas."""

    __slots__ = ("_loop", "_names", "_queue", "_running", "on_answer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.on_answer: Callable[[str, tuple[str, ...]], None] = _ignore
        """Called after each lookup, with the name and the addresses that are known of it."""
        self._names: WeakValueDictionary[str, ResolvedName] = WeakValueDictionary()
        self._queue: deque[ResolvedName] = deque()
        self._running = 0

    def __len__(self) -> int:
        return len(self._names)

    def name(self, host: str) -> ResolvedName | None:
        """``None``: it is an IP address. Keep the result: what is known of the name goes with it."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            name = self._names.get(host)
            if name is None:
                self._names[host] = name = ResolvedName(self._loop, self, host)
            return name
        return None

    def look_up(self, name: ResolvedName) -> None:
        """Have its ``answered`` called once, later."""
        if self._running < MOST_LOOKUPS:
            self._start(name)
        elif name.has_failed:
            self._queue.append(name)
        else:
            self._queue.appendleft(name)

    def _start(self, name: ResolvedName) -> None:
        self._running += 1
        try:
            Thread(target=self._run, args=(name,), name="lookup", daemon=True).start()
        except RuntimeError as error:
            self._loop.call_soon(self._ended, name, (), OSError(str(error)))

    def _run(self, name: ResolvedName) -> None:
        """In a thread."""
        addresses: tuple[str, ...] = ()
        problem = None
        try:
            addresses = host_addresses(name.host)
        except OSError as error:
            problem = error.with_traceback(None)
        except Exception as error:  # a name that cannot be encoded
            problem = OSError(str(error))
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(self._ended, name, addresses, problem)

    def _ended(self, name: ResolvedName, addresses: tuple[str, ...], problem: OSError | None) -> None:
        self._running -= 1
        name.answered(addresses, problem)
        while self._queue and self._running < MOST_LOOKUPS:
            waiting = self._queue.popleft()
            if waiting.is_wanted:
                self._start(waiting)
            else:
                waiting.dropped()


class ResolvedName:
    """What is known of one name."""

    __slots__ = (
        "__weakref__",
        "_addresses",
        "_answered_at",
        "_asked_at",
        "_ended_at",
        "_is_ahead",
        "_is_asked",
        "_loop",
        "_problem",
        "_resolver",
        "_waiters",
        "host",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, resolver: NameResolver, host: str) -> None:
        self._loop = loop
        self._resolver = resolver
        self.host = host
        self._addresses: tuple[str, ...] = ()
        """Of the last lookup that succeeded."""
        self._answered_at = self._ended_at = self._asked_at = 0.0
        """When it ended; when the last one did, well or not; when the last or present one began."""
        self._is_asked = False
        """Whether it is being looked up."""
        self._is_ahead = False
        """Whether that is of use though no connection wants it."""
        self._problem: OSError | None = None
        """Of the last lookup."""
        self._waiters: set[asyncio.Future[None]] = set()

    def __repr__(self) -> str:
        state = " asked" if self._is_asked else ""
        return f"<ResolvedName {self.host} {'|'.join(self._addresses)}{state}>"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of the last lookup that succeeded; empty: none has."""
        return self._addresses

    def look_up_ahead(self) -> None:
        """Have it looked up in the background, before any connection wants it."""
        self._is_ahead = True
        self._look_up(0.0)

    @property
    def is_wanted(self) -> bool:
        """Whether an answer is of use to anybody."""
        return bool(self._waiters or self._addresses or self._is_ahead)

    @property
    def has_failed(self) -> bool:
        """Whether its last lookup has."""
        return self._problem is not None

    @property
    def is_silent(self) -> bool:
        """Whether its first address is being waited for."""
        return self._is_asked and not self._addresses

    async def connect(self, protocol_factory: Callable[[], asyncio.BaseProtocol], port: int) -> None:
        """Open a TCP connection to the first address that accepts one. Raises OSError; DeniedAddress where
        none of them may be dialled."""
        addresses = await self._usable()
        try:
            await self._connect(protocol_factory, addresses, port)
        except asyncio.CancelledError:
            # It has taken too long, most likely.
            self._look_up(SETTLED_S)
            raise
        except OSError as error:
            if is_out_of_descriptors(error) or local_error(error):
                raise
            self._look_up(SETTLED_S)
            await self._wait_briefly()
            new = tuple(address for address in self._addresses if address not in addresses)
            if not new:
                raise
        else:
            return
        await self._connect(protocol_factory, new, port)

    async def address(self, port: int) -> str:
        """The first one at which this port may be dialled. Raises OSError, also DeniedAddress."""
        return self._permitted(await self._usable(), port)[0]

    def _permitted(self, addresses: tuple[str, ...], port: int) -> tuple[str, ...]:
        return address_policy.in_force().permitted(self.host, addresses, port)

    async def _connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], addresses: tuple[str, ...], port: int
    ) -> None:
        errors: dict[str, OSError] = {}
        for address in self._permitted(addresses, port):
            try:
                await self._loop.create_connection(protocol_factory, address, port)
            except OSError as error:
                errors.setdefault(str(error), error)
            else:
                return
        try:
            raise next(iter(errors.values())) if len(errors) == 1 else OSError("; ".join(errors))
        finally:
            errors.clear()  # one of them refers to this frame by now

    async def _usable(self) -> tuple[str, ...]:
        """Raises OSError if no address was ever known."""
        if self._addresses:
            self._look_up(FRESH_S)
            if monotonic() - self._answered_at >= OLD_S:
                await self._wait_briefly()
            return self._addresses
        self._look_up(0.0)
        await self._wait()
        if not self._addresses:
            raise self._error()
        return self._addresses

    def _look_up(self, after_s: float) -> None:
        """Begin a lookup, if none is under way and the last one ended so long ago."""
        now = monotonic()
        if not self._is_asked and now - self._ended_at >= after_s:
            self._is_asked = True
            self._asked_at = now
            self._resolver.look_up(self)

    async def _wait(self) -> None:
        """For the end of the lookup under way."""
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def _wait_briefly(self) -> None:
        """The same, unless it takes long or the last one has failed."""
        left_s = self._asked_at + BRIEFLY_S - monotonic()
        if self._is_asked and not self.has_failed and left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wait()

    def answered(self, addresses: tuple[str, ...], problem: OSError | None) -> None:
        """The lookup has ended."""
        if not addresses and problem is None:
            problem = OSError("it has no address")
        failed_before = self.has_failed
        self._is_asked = False
        self._problem = problem
        self._ended_at = monotonic()
        if problem is None:
            self._addresses = addresses
            self._answered_at = self._ended_at
            if failed_before:
                log.info("the name %s is looked up again: %s", self.host, ", ".join(addresses))
        elif not failed_before:
            log.warning("%s; %s", self._error().strerror, self._what_is_left())
        self._wake()
        self._resolver.on_answer(self.host, self._addresses)

    def dropped(self) -> None:
        """The lookup was not begun, because nobody waited for it any more."""
        self._is_asked = False

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _what_is_left(self) -> str:
        if self._addresses:
            return f"new connections go to its last addresses, {', '.join(self._addresses)}"
        return "no connection can be opened to it"

    def _error(self) -> OSError:
        problem = self._problem
        assert problem is not None
        words = f"DNS has given no address of {self.host}: {problem.strerror or problem}"
        if isinstance(problem, socket.gaierror):
            return socket.gaierror(problem.errno, words)
        return OSError(problem.errno, words)


def _ignore(host: str, addresses: tuple[str, ...]) -> None:
    """The default callback: does nothing."""
