"""Prefix cache: KV of prompts that a server keeps after their requests, for prompts with the same prefix.

Theory. The name of a block of tokens covers the block and everything before it, so equal names mean equal
prefixes. Eviction is LRU. The cache has its own memory, apart from that of the batch.

Source: automatic prefix caching in vLLM; RadixAttention in SGLang (Zheng et al., 2024).
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 512
"""Of a Mooncake trace."""


def packed(blocks: Sequence[int]) -> bytes:
    """Names of a prompt's blocks as a request's key: 8 bytes each."""
    return array("Q", blocks).tobytes()


class PrefixCache:
    """So many blocks, least recently used ones dropped first."""

    def __init__(self, kv_tokens: int, block_tokens: int = BLOCK_TOKENS) -> None:
        self._most = max(1, kv_tokens // block_tokens)
        self._block_tokens = block_tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self.hit_tokens = 0
        self.tokens = 0

    def take(self, key: bytes, prompt_tokens: int) -> int:
        """How many of these tokens need not be read in; all are kept from now on. At least one is read."""
        kept = self._blocks
        found = 0
        known = True
        for block in array("Q", key):
            if block in kept:
                kept.move_to_end(block)
                found += known
            else:
                known = False
                kept[block] = None
        while len(kept) > self._most:
            kept.popitem(last=False)
        hit = min(found * self._block_tokens, prompt_tokens - 1)
        self.hit_tokens += hit
        self.tokens += prompt_tokens
        return hit

    def clear(self) -> None:
        """The memory is lost."""
        self._blocks.clear()
