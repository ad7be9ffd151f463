"""KV events as vLLM publishes them, of this version, of earlier and of later ones."""

import msgspec
import pytest

from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KvEvent,
    events_of,
    sequence_of,
)


def read(*events: object, after: tuple[object, ...] = ()) -> list[KvEvent]:
    return list(events_of(msgspec.msgpack.encode([1.5, events, *after])))


@pytest.mark.parametrize(
    "more",
    [
        (),
        (None, "GPU"),
        (None, "GPU", "adapter", [None], 0, "full_attention", None, "LOCAL", None, "session"),
    ],
    ids=["0.9", "0.11", "later"],
)
def test_blocks_that_are_stored(more: tuple[object, ...]) -> None:
    (event,) = read(["BlockStored", [1, 2**63], None, [5, 6, 7, 8], 2, *(more or (None,))])
    assert isinstance(event, BlockStored)
    assert (event.block_hashes, event.block_size) == ([1, 2**63], 2)
    assert event.medium == ("GPU" if more else None)


def test_blocks_that_are_dropped_and_a_cache_that_is_emptied() -> None:
    hashes: list[int | bytes] = [b"\x01" * 32, 7]
    removed, more, cleared, later = read(
        ["BlockRemoved", hashes],
        ["BlockRemoved", hashes, "CPU", 0, "LOCAL"],
        ["AllBlocksCleared"],
        ["AllBlocksCleared", "GPU"],
        after=(0, "more"),
    )
    assert isinstance(removed, BlockRemoved)
    assert (removed.block_hashes, removed.medium, removed.group_idx) == (hashes, None, None)
    assert isinstance(more, BlockRemoved)
    assert (more.block_hashes, more.medium, more.group_idx) == (hashes, "CPU", 0)
    assert isinstance(cleared, AllBlocksCleared)
    assert isinstance(later, AllBlocksCleared)


def test_events_as_maps() -> None:
    """As vLLM 0.33 writes them: fields that have their default are left out, and further ones come."""
    stored, removed, cleared = read(
        {
            "type": "BlockStored",
            "block_hashes": [b"\x01" * 32],
            "parent_block_hash": None,
            "token_ids": [1, 2],
            "block_size": 2,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "extra_keys": [["salt"]],
            "group_idx": 1,
            "kv_cache_spec_kind": "sliding_window",
            "session_id": "s",
        },
        {"type": "BlockRemoved", "block_hashes": [b"\x01" * 32], "medium": "GPU", "group_idx": 1},
        {"type": "AllBlocksCleared"},
        after=(0,),
    )
    assert isinstance(stored, BlockStored)
    assert (stored.block_hashes, stored.block_size, stored.medium) == ([b"\x01" * 32], 2, "GPU")
    assert (stored.group_idx, stored.kv_cache_spec_kind) == (1, "sliding_window")
    assert isinstance(removed, BlockRemoved)
    assert (removed.block_hashes, removed.medium, removed.group_idx) == ([b"\x01" * 32], "GPU", 1)
    assert isinstance(cleared, AllBlocksCleared)


def test_events_that_are_not_known_are_passed_over() -> None:
    events: tuple[object, ...] = (
        ["BlockMoved", [1], "GPU", "CPU"],
        ["BlockStored", "nothing"],
        7,
        {},
        {"type": "BlockMoved"},
        {"type": "BlockStored", "block_hashes": "nothing"},
        ["BlockRemoved", [1]],
    )
    (known,) = read(*events)
    assert isinstance(known, BlockRemoved)
    assert known.block_hashes == [1]


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"text", msgspec.msgpack.encode({"ts": 1}), b"\x91" * 9999]
)
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(DECODE_ERRORS):
        list(events_of(payload))


def test_the_number_has_eight_bytes() -> None:
    assert sequence_of(b"\0\0\0\0\0\0\1\2") == 258
    with pytest.raises(ValueError, match="2 bytes"):
        sequence_of(b"\0\1")
