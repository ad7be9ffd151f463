"""KV events of a model server (prefix cache events), as vLLM publishes them: what its cache keeps and drops.

A message has three parts: a topic, a number of 8 bytes (big-endian) that counts messages from the publisher's
start, and MessagePack of a batch: an array of time, events and whatever a later version appends. An event is
an array that begins with its name or, of late versions of vLLM, a map whose ``type`` is its name. Kinds and
fields that are not known here are passed over. The tokens of a block are not read.

A model whose layers differ has a cache for each group of layers. A group that looks back over a window only,
or keeps a state, has blocks of part of a prompt (:data:`PARTIAL`).

Source: vLLM, ``vllm/distributed/kv_events.py`` (0.33 writes maps, 0.11 arrays) and
``vllm/v1/kv_cache_interface.py``; SGLang and TensorRT-LLM publish arrays.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

BlockHash = int | bytes
GPU = (None, "GPU")
"""Where a block is, if it is where prompts are read."""


PARTIAL = frozenset(
    {
        *("sliding_window", "sliding_window_mla", "chunked_local_attention", "mamba"),
        *("encoder_only_attention", "cross_attention"),
    }
)
"""Kinds of groups."""


class BlockStored(msgspec.Struct, frozen=True):
    """Blocks that the cache keeps from now on."""

    block_hashes: list[BlockHash]
    parent_block_hash: Any
    token_ids: msgspec.Raw
    block_size: int
    """Tokens of a block."""
    lora_id: Any = None
    medium: Any = None
    lora_name: Any = None
    extra_keys: msgspec.Raw = msgspec.Raw()
    group_idx: Any = None
    kv_cache_spec_kind: Any = None


class BlockRemoved(msgspec.Struct, frozen=True):
    """Blocks that the cache has dropped."""

    block_hashes: list[BlockHash]
    medium: Any = None
    group_idx: Any = None


class AllBlocksCleared(msgspec.Struct, frozen=True):
    """The cache is empty."""


class _StoredArray(BlockStored, frozen=True, array_like=True, tag="BlockStored"): ...


class _RemovedArray(BlockRemoved, frozen=True, array_like=True, tag="BlockRemoved"): ...


class _ClearedArray(AllBlocksCleared, frozen=True, array_like=True, tag="AllBlocksCleared"): ...


class _StoredMap(BlockStored, frozen=True, tag="BlockStored"): ...


class _RemovedMap(BlockRemoved, frozen=True, tag="BlockRemoved"): ...


class _ClearedMap(AllBlocksCleared, frozen=True, tag="AllBlocksCleared"): ...


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    ts: float
    events: list[msgspec.Raw]


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared

_batches = msgspec.msgpack.Decoder(_Batch)
_array = msgspec.msgpack.Decoder(_StoredArray | _RemovedArray | _ClearedArray)
_map = msgspec.msgpack.Decoder(_StoredMap | _RemovedMap | _ClearedMap)


def events_of(payload: bytes) -> Iterator[KvEvent]:
    """Those of a batch that are known here. Raises what is in
    :data:`routing.contract.decode_errors.DECODE_ERRORS` when it is no batch, before the first event."""
    for raw in _batches.decode(payload).events:
        try:
            yield (_map if _is_map(raw) else _array).decode(raw)
        except DECODE_ERRORS:
            continue


def _is_map(value: msgspec.Raw) -> bool:
    first = memoryview(value)[0]
    return first >> 4 == 0x8 or first in (0xDE, 0xDF)


def sequence_of(part: bytes) -> int:
    """A message's number. Raises ValueError."""
    if len(part) != 8:
        raise ValueError(f"a number of {len(part)} bytes, where 8 are expected")
    return int.from_bytes(part, "big")
