"""Snapshots of large fleets in pieces: what is stored is read again, and older readers are not misled."""

from typing import Any

import msgspec
import pytest

from routing.contract import snapshot_chunks
from routing.contract.snapshot_chunks import CHUNK_REPLICAS, decode_fields, stored_fields
from routing.contract.table import FleetSnapshot, ReplicaSpec, decode_snapshot, encode


def snapshot(replicas: int, **fields: Any) -> FleetSnapshot:
    listed = [
        ReplicaSpec(uid=f"u{n}", name=f"r{n}", url=f"http://10.0.0.1:{n + 1}", weight=1.0 + n)
        for n in range(replicas)
    ]
    given = {"epoch": 1, "version": 7, "revision": 3, "name": "big", "protocol": "openai", "aliases": ["b"]}
    return FleetSnapshot(**{**given, **fields}, replicas=listed)


def in_redis(snapshot: FleetSnapshot) -> dict[bytes, bytes]:
    return {name.encode(): value for name, value in stored_fields(snapshot).items()}


@pytest.mark.parametrize("replicas", [0, 1, CHUNK_REPLICAS])
def test_a_small_one_is_stored_as_ever(replicas: int) -> None:
    small = snapshot(replicas)
    assert stored_fields(small) == {"body": encode(small)}
    assert decode_fields(in_redis(small)) == small


@pytest.mark.parametrize("replicas", [CHUNK_REPLICAS + 1, 2 * CHUNK_REPLICAS, 2 * CHUNK_REPLICAS + 1])
def test_a_large_one_comes_back_whole(replicas: int) -> None:
    large = snapshot(replicas)
    fields = stored_fields(large)
    chunks = [name for name in fields if name.startswith("replicas:")]
    assert int(fields[snapshot_chunks.CHUNKS]) == len(chunks) == -(-replicas // CHUNK_REPLICAS)
    assert all(len(snapshot_chunks.decode_chunk(fields[name])) <= CHUNK_REPLICAS for name in chunks)
    assert decode_fields(in_redis(large)) == large


def test_the_old_form_of_a_large_one_is_still_read() -> None:
    large = snapshot(CHUNK_REPLICAS + 1)
    assert decode_fields({b"body": encode(large)}) == large


def test_an_older_reader_refuses_a_large_one_and_does_not_take_it_for_empty() -> None:
    with pytest.raises(msgspec.ValidationError, match="replicas"):
        decode_snapshot(stored_fields(snapshot(CHUNK_REPLICAS + 1))["body"])


def test_what_is_not_whole_is_refused() -> None:
    fields = in_redis(snapshot(CHUNK_REPLICAS + 1))
    for damaged in (
        {**fields, b"replicas:1": b"[]"},
        {**fields, b"replicas:1": b"[{}]"},
        {**fields, b"chunks": b"1"},
        {**fields, b"chunks": b"three"},
        {**fields, b"chunks": b"-1"},
        {name: value for name, value in fields.items() if name != b"replicas:0"},
        {name: value for name, value in fields.items() if name != b"body"},
    ):
        with pytest.raises(msgspec.MsgspecError):
            decode_fields(damaged)
