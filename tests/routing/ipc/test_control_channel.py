"""The control channel: framing of messages between master and worker."""

import asyncio
import socket
from collections.abc import Iterator

import msgspec

from routing.contract.snapshot_chunks import from_msgpack_in_steps
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.ipc.control_channel import (
    Applied,
    ControlChannel,
    ControlMessage,
    Drain,
    EncodedTables,
    StickyCorrection,
    StickyLearned,
    StickyReply,
    StopAccepting,
    Tables,
    WorkerControlChannel,
    quiet_time_s,
)
from routing.shared.sticky_ids import ReplicaRef


def table(version: int = 1, replicas: int = 2) -> FleetSnapshot:
    specs = [
        ReplicaSpec(uid=f"u{number}", name=f"r{number}", url=f"http://10.0.0.{number}:80")
        for number in range(1, replicas + 1)
    ]
    return FleetSnapshot(
        epoch=1, version=version, revision=1, name="echo", protocol="generic", replicas=specs
    )


MANIFEST = Manifest(epoch=1, version=1, fleets={"echo": 1}, default="echo")


def test_idle_connections_of_a_leaving_worker_are_closed_late_but_in_time() -> None:
    """Clients that send every few seconds are told to close by a response; none is left when time is up."""
    assert [quiet_time_s(True, drain_s) for drain_s in (600.0, 30.0, 6.0)] == [15.0, 15.0, 3.0]
    assert quiet_time_s(False, 600.0) == 1.0


async def test_messages_cross_the_channel_whole_and_in_order() -> None:
    received: list[ControlMessage] = []
    closed = asyncio.Event()
    left, right = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, sender = await loop.create_unix_connection(
        lambda: ControlChannel(received.append, lambda: None), sock=left
    )
    await loop.create_unix_connection(lambda: ControlChannel(received.append, closed.set), sock=right)
    sent: list[ControlMessage] = [
        Applied(manifest="1:1"),
        Tables(manifest=MANIFEST, snapshots=[table(replicas=3000)]),
        StopAccepting(quiet_s=1.0),
    ]
    for message in sent:
        sender.send(message)
    sender.close()
    await asyncio.wait_for(closed.wait(), 10)
    assert received == sent
    sender.send(StopAccepting(quiet_s=1.0))
    assert len(received) == 3


async def test_a_message_may_come_one_byte_at_a_time() -> None:
    received: list[ControlMessage] = []
    channel = ControlChannel(received.append, lambda: None)
    body = b"\x81\xa4type\xa5drain"
    for byte in len(body).to_bytes(4, "big") + body:
        channel.data_received(bytes([byte]))
    assert received == [Drain()]


async def test_a_worker_decodes_a_large_table_in_steps() -> None:
    received: list[object] = []
    left, right = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, sender = await loop.create_unix_connection(
        lambda: ControlChannel(received.append, lambda: None), sock=left
    )
    closed = asyncio.Event()
    await loop.create_unix_connection(lambda: WorkerControlChannel(received.append, closed.set), sock=right)
    sender.send(Tables(manifest=MANIFEST, snapshots=[table(replicas=3000)]))
    sender.close()
    await asyncio.wait_for(closed.wait(), 10)
    [tables] = received
    assert isinstance(tables, EncodedTables)
    assert tables.manifest == MANIFEST
    whole: list[FleetSnapshot] = []

    def decode() -> Iterator[None]:
        whole.append((yield from from_msgpack_in_steps(tables.snapshots[0])))

    assert len(list(decode())) == 5
    assert whole == [table(replicas=3000)]


def test_a_worker_that_is_newer_than_its_master_names_a_replica_as_before() -> None:
    ref = ReplicaRef("echo", "u1", "r1")
    for message in (
        StickyLearned(name="resp_1", replica_ref=ref),
        StickyCorrection(name="resp_1", replica_ref=ref),
        StickyReply(question=1, replica_ref=ref),
    ):
        assert msgspec.to_builtins(message)["place"] == ("echo", "u1", "r1")
