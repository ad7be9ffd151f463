"""Cache view: what one replica's KV events tell of its cache: when it is emptied, and how long blocks stay.

Theory. Blocks of tokens cannot be matched with hashes of text without the model's tokenizer. But what happens
to blocks as a whole can be known. If all are gone, so are all prompts that the replica was sent. And a server
drops the block that was not used for longest, so blocks that are dropped were last used as long ago as any
that it keeps. A block's age, from being stored to being dropped, is that time or, if it was used again
meanwhile, longer. So the median of the latest ages is no less than what half of all prompts get: nothing that
was used within it is taken for gone too early, and what was not for twice as long can be forgotten.

Messages that were missed make the list of blocks wrong, so it begins anew then. A number that falls back is a
publisher that was started again, with an empty cache.

Of a model with several groups of layers, one group's blocks are listed: the first of which was heard that
keeps whole prompts.
"""

from collections import deque
from statistics import median
from typing import Any

from routing.contract.kv_events import (
    GPU,
    PARTIAL,
    AllBlocksCleared,
    BlockHash,
    BlockRemoved,
    BlockStored,
    events_of,
)

MOST_BLOCKS = 1 << 20
"""That are listed of one replica; further ones are not, until some are dropped."""
LATEST = 1024
"""Ages that count."""
LEAST = 64
"""With fewer of them nothing is said."""


class CacheView:
    """One replica's."""

    __slots__ = ("_ages", "_blocks", "_group", "_sequence", "_size", "clears", "missed")

    def __init__(self) -> None:
        self._blocks: dict[BlockHash, float] = {}
        """Those in the cache → when they were stored."""
        self._ages: deque[float] = deque(maxlen=LATEST)
        self._group: Any = None
        """Whose blocks are listed, once there are any."""
        self._sequence = -1
        self._size = 0
        self.clears = 0
        """How often the cache was found emptied."""
        self.missed = 0
        """Messages that did not arrive."""

    @property
    def tokens_held(self) -> int:
        """Tokens in the cache of which was heard."""
        return len(self._blocks) * self._size

    @property
    def block_age_s(self) -> float | None:
        """Median age of the blocks that were dropped last, in seconds; ``None``: too few were."""
        return median(self._ages) if len(self._ages) >= LEAST else None

    def forget(self) -> None:
        """What was derived is of no use any more."""
        self._blocks.clear()
        self._ages.clear()
        self._sequence = -1

    def take(self, sequence: int, payload: bytes, now: float) -> bool:
        """One message. Returns whether the cache was emptied. Raises what is in
        :data:`routing.contract.decode_errors.DECODE_ERRORS` for one that is no batch."""
        emptied = sequence <= self._sequence
        if emptied:
            self.forget()
        elif self._sequence >= 0 and sequence > self._sequence + 1:
            self.missed += sequence - self._sequence - 1
            self._blocks.clear()
        self._sequence = sequence
        for event in events_of(payload):
            match event:
                case BlockStored():
                    self._store(event, now)
                case BlockRemoved():
                    self._remove(event, now)
                case AllBlocksCleared():
                    self._blocks.clear()
                    emptied = True
        self.clears += emptied
        return emptied

    def _store(self, event: BlockStored, now: float) -> None:
        if event.medium not in GPU or event.kv_cache_spec_kind in PARTIAL:
            return
        if not self._blocks:
            self._group = event.group_idx
        elif event.group_idx != self._group:
            return
        self._size = event.block_size
        for block in event.block_hashes[: MOST_BLOCKS - len(self._blocks)]:
            self._blocks.setdefault(block, now)

    def _remove(self, event: BlockRemoved, now: float) -> None:
        if event.medium not in GPU or event.group_idx != self._group:
            return
        for block in event.block_hashes:
            stored = self._blocks.pop(block, None)
            if stored is not None:
                self._ages.append(now - stored)
