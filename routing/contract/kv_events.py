"""KV events of a model server (prefix cache events), as vLLM publishes them: what its cache keeps and drops.

A message has three parts: a topic, a number of 8 bytes (big-endian) that counts messages from the publisher's
start, and MessagePack of a batch: an array of time, events and whatever a later version appends. An event is
an array that begins with its name. Kinds and fields that are not known here are passed over. The tokens of a
block are not read.

Source: vLLM, ``vllm/distributed/kv_events.py``; SGLang and TensorRT-LLM publish the same form.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

BlockHash = int | bytes
GPU = (None, "GPU")
"""Where a block is, if it is where prompts are read."""


class BlockStored(msgspec.Struct, frozen=True, array_like=True, tag="BlockStored"):
    """Blocks that the cache keeps from now on."""

    block_hashes: list[BlockHash]
    parent_block_hash: Any
    token_ids: msgspec.Raw
    block_size: int
    """Tokens of a block."""
    lora_id: Any = None
    medium: Any = None


class BlockRemoved(msgspec.Struct, frozen=True, array_like=True, tag="BlockRemoved"):
    """Blocks that the cache has dropped."""

    block_hashes: list[BlockHash]
    medium: Any = None


class AllBlocksCleared(msgspec.Struct, frozen=True, array_like=True, tag="AllBlocksCleared"):
    """The cache is empty."""


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    ts: float
    events: list[msgspec.Raw]


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared

_batches = msgspec.msgpack.Decoder(_Batch)
_events = msgspec.msgpack.Decoder(KvEvent)


def events_of(payload: bytes) -> Iterator[KvEvent]:
    """Those of a batch that are known here. Raises what is in
    :data:`routing.contract.decode_errors.DECODE_ERRORS` when it is no batch, before the first event."""
    for raw in _batches.decode(payload).events:
        try:
            yield _events.decode(raw)
        except DECODE_ERRORS:
            continue


def sequence_of(part: bytes) -> int:
    """A message's number. Raises ValueError."""
    if len(part) != 8:
        raise ValueError(f"a number of {len(part)} bytes, where 8 are expected")
    return int.from_bytes(part, "big")
