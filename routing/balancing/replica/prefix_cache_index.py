"""Prefix cache index: which prompts' beginnings a replica was sent lately, by their hashes (KV cache).

Theory. What was used least lately is forgotten first, in two generations: hashes are noted in the young one;
when that is full it becomes the old one, whose hashes are then forgotten, but for those that were used in the
meantime and are in the young one again. So a hash outlives at least half of what fits in, and nothing has to
be moved. A prompt's hashes are noted together: whoever knows one knows all before it, which is what lets
:meth:`PrefixCacheIndex.length` halve its way.
"""

from collections.abc import Sequence

BYTES_EACH = 128
"""Of a hash in here: the number (36), and its entry in a table that has just grown."""


class PrefixCacheIndex:
    """Of one replica, in one worker."""

    __slots__ = ("old", "young")

    def __init__(self) -> None:
        self.young: dict[int, None] = {}
        self.old: dict[int, None] = {}
        """A hash is known that is in either."""

    def note(self, key: Sequence[int], most: int) -> None:
        """It is sent a prompt with these hashes. ``most``: that are to be kept, about."""
        self.young.update(dict.fromkeys(key))
        if 2 * len(self.young) > most:
            self.old, self.young = self.young, {}

    def length(self, key: Sequence[int], least: int) -> int:
        """How many of a prompt's hashes it knows, where it knows ``least`` of them."""
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
