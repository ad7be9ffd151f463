"""KV events of a real publisher: what they do to the memory of prompts, and that nothing else needs them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from routing.balancing.replica.prefix_cache_index import HIGH_BITS, PrefixCacheIndex, spec_key
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.master.kv_events import listener
from routing.master.kv_events.cache_view import LEAST
from routing.master.kv_events.listener import NOT_INSTALLED, SEVERAL, KvEventListener
from routing.master.table_cache import TableCache
from routing.shared.prefix_memory import PrefixMemory
from tests.address_policies import judged_by
from tests.proxy_process import Proxy, Replica, fleet_file, free_port, until
from tests.routing.master.test_prefix_memory import ANSWER, CONVERSATIONS, POLICY, take_turn

HASHES = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 40)]
CLEARED = ["AllBlocksCleared"]


class KvPublisher:
    """As vLLM's: three parts, numbered from 0 on."""

    def __init__(self, port: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.bind(f"tcp://127.0.0.1:{port}")
        self.sequence = -1

    def send(self, *events: object) -> None:
        self.sequence += 1
        batch = msgspec.msgpack.encode([0.0, events, 0])
        self.send_parts(b"kv-events", self.sequence.to_bytes(8, "big"), batch)

    def send_parts(self, *parts: bytes) -> None:
        self._socket.send_multipart(parts)

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def stored(*blocks: int) -> list[object]:
    return ["BlockStored", blocks, None, [1] * 16 * len(blocks), 16, None, "GPU"]


def removed(*blocks: int) -> list[object]:
    return ["BlockRemoved", blocks, "GPU"]


class Host:
    """A master's listener, with the memory that its workers would share."""

    def __init__(self, port: int, *hosts: str) -> None:
        self.memory = PrefixMemory.private()
        self.answers: dict[str, int] = {}
        self.specs = [
            ReplicaSpec(uid=f"u{at}", name=f"r{at}", url=f"http://{host}:{8000 + at}")
            for at, host in enumerate(hosts or ("127.0.0.1",))
        ]
        policy = Policy(strategy="prefix_affinity", parameters={"kv_events_port": port})
        table = FleetSnapshot(
            epoch=1, version=1, revision=1, name="llm", protocol="openai", policy=policy, replicas=self.specs
        )
        self.table = TableCache(None)
        self.table.keep(Manifest(epoch=1, version=1, fleets={"llm": 1}), [table])
        self.listener = KvEventListener(self.memory, self.table, lambda: dict(self.answers))

    def prompts(self) -> tuple[PrefixCacheIndex, int]:
        index = PrefixCacheIndex(self.memory, "llm", len(self.specs), 32)
        (column,) = self.memory.claim("llm", [spec_key(self.specs[0])], index.places)
        return index, column

    def note(self) -> None:
        index, column = self.prompts()
        index.note(column, HASHES)

    def known(self) -> int:
        index, column = self.prompts()
        return index.length(column, HASHES, 0)

    def has_aged(self) -> bool:
        """Since all was noted last."""
        index, column = self.prompts()
        return index.tags[column + (HASHES[0] & index.low_bits)] != HASHES[0] >> HIGH_BITS

    @property
    def state(self) -> Any:
        return self.listener.status()[0]


@asynccontextmanager
async def listening(port: int, *hosts: str) -> AsyncIterator[Host]:
    host = Host(port, *hosts)
    running = asyncio.create_task(host.listener.run())
    try:
        await when(host.listener.status)
        yield host
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        host.memory.close()


async def when(
    condition: Callable[[], Any], limit_s: float = 20.0, do: Callable[[], None] | None = None
) -> None:
    """Wait until it is true; ``do`` is done between."""
    async with asyncio.timeout(limit_s):
        while not condition():
            if do is not None:
                do()
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REVIEW_EVERY_S", 0.05)
    monkeypatch.setattr(listener, "ANSWERS_EVERY_S", 0.05)


@pytest.fixture
def publisher() -> Iterator[tuple[int, KvPublisher]]:
    port = free_port()
    made = KvPublisher(port)
    yield port, made
    made.close()


async def heard(host: Host, made: KvPublisher) -> None:
    """A subscriber hears nothing of what was published before it came."""
    await when(lambda: host.state.state == "heard", do=made.send)


async def test_an_emptied_cache_empties_the_column(publisher: tuple[int, KvPublisher]) -> None:
    port, made = publisher
    async with listening(port) as host:
        assert host.state.state == "waiting"
        await heard(host, made)
        host.note()
        made.send(stored(1, 2))
        await when(lambda: host.state.tokens_held == 32)
        assert host.known() == len(HASHES)
        made.send(CLEARED)
        await when(lambda: not host.known())
        assert (host.state.clears, host.state.tokens_held) == (1, 0)


async def test_a_publisher_that_is_started_again_has_an_empty_cache(
    publisher: tuple[int, KvPublisher],
) -> None:
    port, made = publisher
    async with listening(port) as host:
        await heard(host, made)
        host.note()
        made.sequence = 1000
        made.send()
        await when(lambda: host.state.missed)
        assert host.known() == len(HASHES), "a gap is no new start"
        made.sequence = -1
        made.send()
        await when(lambda: not host.known())
        assert host.state.clears == 1


async def test_what_is_not_sent_again_is_believed_for_two_ages_of_blocks_at_most(
    publisher: tuple[int, KvPublisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LEAST_AGE_S", 0.2)
    port, made = publisher
    async with listening(port) as host:
        await heard(host, made)
        host.note()
        assert host.state.block_age_s is None
        made.send(stored(*range(LEAST)))
        await when(lambda: host.state.tokens_held)
        assert host.known() == len(HASHES), "no age is known, so nothing ages"
        made.send(removed(*range(LEAST)))
        await when(lambda: host.state.block_age_s is not None)
        await when(lambda: not host.known())
        for _ in range(3):  # renewed within each age, it stays
            host.note()
            assert host.known() == len(HASHES)
            await when(host.has_aged)
            assert host.known() == len(HASHES), "for one age at least"


async def test_who_falls_silent_while_it_answers_is_believed_no_more_and_comes_back(
    publisher: tuple[int, KvPublisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SILENT_S", 0.3)
    port, made = publisher
    async with listening(port) as host:
        await heard(host, made)
        made.send(stored(*range(LEAST)), removed(*range(LEAST)), stored(7))
        await when(lambda: host.state.block_age_s is not None)
        host.note()
        await when(lambda: (host.state.heard_s_ago or 0.0) > 0.5)
        assert host.state.state == "heard", "without requests nothing is expected"
        host.answers["u0"] = 10
        await when(lambda: host.state.state == "silent")
        assert (host.state.tokens_held, host.state.block_age_s) == (0, None)
        host.note()
        known = host.known()
        made.send(stored(8))
        await when(lambda: host.state.state == "heard")
        assert (known, host.known(), host.state.tokens_held) == (len(HASHES), len(HASHES), 16)


async def test_messages_that_cannot_be_read_are_said_and_passed_over(
    publisher: tuple[int, KvPublisher],
) -> None:
    port, made = publisher
    async with listening(port) as host:
        await heard(host, made)
        for parts in ((b"one",), (b"t", b"\0", b"x"), (b"t", bytes(8), b"\xc1"), (b"a", b"b", b"c", b"d")):
            made.send()
            await when(lambda: not host.state.problem)
            made.send_parts(*parts)
            await when(lambda: "could not be read" in host.state.problem)
        made.send(stored(1))
        await when(lambda: host.state.tokens_held == 16)
        assert host.state.problem == ""


async def test_an_address_that_is_denied_is_not_dialled(publisher: tuple[int, KvPublisher]) -> None:
    port, _ = publisher
    with judged_by(denied=("127.0.0.0/8",)):
        async with listening(port) as host:
            await when(lambda: "is denied by" in host.state.problem)
        async with listening(port, "localhost") as host:
            await when(lambda: "forbidden" in host.state.problem or "denied" in host.state.problem)
            assert host.state.state == "waiting"


async def test_names_are_looked_up_and_what_cannot_be_is_said(publisher: tuple[int, KvPublisher]) -> None:
    port, made = publisher
    async with listening(port, "localhost") as host:
        await heard(host, made)
    async with listening(port, "nowhere.invalid") as host:
        await when(lambda: host.state.problem)
        assert host.state.state == "waiting"


async def test_replicas_at_one_host_cannot_be_told_apart() -> None:
    async with listening(free_port(), "127.0.0.1", "127.0.0.1", "127.0.0.3") as host:
        assert [status.problem for status in host.listener.status()] == [SEVERAL, SEVERAL, ""]


async def test_without_pyzmq_all_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    async with listening(free_port()) as host:
        assert (host.state.state, host.state.problem) == ("waiting", NOT_INSTALLED)


async def test_nobody_is_listened_to_without_a_port_and_no_more_once_it_is_gone(
    publisher: tuple[int, KvPublisher],
) -> None:
    port, made = publisher
    async with listening(port) as host:
        await heard(host, made)
        before = host.table.snapshots["llm"]
        changed = msgspec.structs.replace(before, version=2, policy=Policy(strategy="prefix_affinity"))
        host.table.keep(None, [changed])
        await when(lambda: not host.listener.status())


def test_in_a_whole_proxy_all_workers_forget_what_a_replica_has_dropped(
    proxy: Callable[..., Proxy],
    replicas: list[Replica],
    tmp_path: Path,
    publisher: tuple[int, KvPublisher],
) -> None:
    port, made = publisher
    replicas[0].body = ANSWER
    policy = {**POLICY, "parameters": {"block_bytes": 64, "kv_events_port": port}}
    file = fleet_file(tmp_path / "fleets.yaml", replicas[:1], protocol="openai", policy=policy)
    running = proxy("--fleets", str(file), "--workers", "2", "--min-drain-seconds", "0").ready()

    def events() -> dict[str, Any]:
        made.send()
        row: dict[str, Any] = running.replicas("echo")["a"]["kv_events"]
        return row

    def counted(name: str) -> int:
        lines = running.admin("/metrics")[1].splitlines()
        found = [line for line in lines if line.startswith(f"switchyard_{name}_total{{")]
        return sum(int(line.rpartition(" ")[2]) for line in found)

    until(lambda: events()["state"] == "heard", "it is listened to")
    take_turn(running, 1)
    take_turn(running, 2)
    until(lambda: counted("affinity_kept") == CONVERSATIONS, "all are known")
    made.send(stored(1, 2), CLEARED, stored(3))
    until(lambda: events()["clears"] == 1, "it was heard")
    began = counted("affinity_new")
    take_turn(running, 3)
    until(lambda: counted("affinity_new") == began + CONVERSATIONS, "none is known any more")
    said = running.admin("/metrics")[1]
    labels = '{fleet="echo",replica="a"}'
    for line in (
        f"switchyard_replica_kv_events_heard{labels} 1",
        f"switchyard_replica_kv_tokens_held{labels} 16",
        f"switchyard_replica_kv_clears_total{labels} 1",
    ):
        assert line in said
    assert [row["restarts"] for row in running.status()["workers"]] == [0, 0]
