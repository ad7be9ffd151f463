"""Prefix cache index: which prompts' prefixes a replica was sent lately, by their hashes (KV cache).

Theory. The least recently used hashes are forgotten first, in two generations. Hashes are noted in the young
generation. When that is full it becomes the old one, and the hashes of the old one are forgotten, except
those that were used in the meantime and are in the young one again. So a hash outlives at least half of what
fits in, and nothing has to be moved. A prompt's hashes are noted together: where one is known, all before it
are. So :meth:`PrefixCacheIndex.length` can search by halves.
"""

from collections.abc import Sequence

BYTES_EACH = 128
"""Of a hash in here: the number (36), and its entry in a table that has just grown."""


class PrefixCacheIndex:
    """The prompts of one replica, in one worker."""

    __slots__ = ("old", "young")

    def __init__(self) -> None:
        self.young: dict[int, None] = {}
        self.old: dict[int, None] = {}
        """A hash is known that is in either."""

    def note(self, key: Sequence[int], most: int) -> None:
        """The replica is sent a prompt with these hashes. ``most``: how many hashes to keep, about."""
        self.young.update(dict.fromkeys(key))
        if 2 * len(self.young) > most:
            self.old, self.young = self.young, {}

    def length(self, key: Sequence[int], least: int) -> int:
        """How many of a prompt's hashes are known here. ``least``: so many are known already."""
        young, old = self.young, self.old
        most = len(key)
        while least < most:
            middle = (least + most) // 2
            hash = key[middle]
            if hash in young or hash in old:
                least = middle + 1
            else:
                most = middle
        return least

    def __len__(self) -> int:
        return len(self.young) + len(self.old)


EMPTY_INDEX = PrefixCacheIndex()
"""What every replica knows that was sent no prompt; nothing is noted in it."""
