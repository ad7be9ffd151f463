"""Prefix memory: which prompts' prefixes each replica was sent lately, in memory that a host's workers share.

Theory. A prefix is known by a hash of 64 bits. Some of its bits say where its tag is, which is its 32 high
bits. A replica has a column of such places, with two tags each, a newer and an older one: of the prefixes
that meet in a place the least recently used is forgotten (a set-associative cache of two ways). The columns
of sixteen replicas of a fleet are a group, in which the same places of all of them stand together, the newer
tags before the older ones: one look tells who knows a prefix. A tag is written whole, so a reader sees an old
or a new one but never half of one. Two workers that write the same place at once may lose one of the two
prefixes, which costs a prompt its affinity once. So nothing is locked. Two prefixes that agree in place and
tag are taken for one: of the lookups in a full group one in a hundred million. What the tags mean is in
:mod:`routing.balancing.replica.prefix_cache_index`.

A directory says whose a column is. It changes only when a replica is new to the host, and is guarded by a
POSIX record lock, which the kernel releases when its holder dies. Nobody gives a column back. Workers touch
those of their replicas now and then, and a column that nobody has touched for :data:`UNTOUCHED_S` may be
given to another replica. So what is known outlives tables and workers.

::

    header     magic, groups, identity                         64 bytes
    owners     the fleet of each group                          8 bytes a group
    keys       the replica of each column                       8 bytes a column
    touched    when it was last touched                         8 bytes a column
    groups     PLACES places of COLUMNS columns of two tags     4 MiB a group, from a multiple of 64 KiB on

The first group is nobody's and never written: it stands for a replica without a column. The block is an
anonymous memory file. What is not written costs only address space.

Source: Hyatt and Mann, "A lock-less transposition table implementation for parallel search chess" (ICGA
Journal 25, 2002): tables of hints that all may write.
"""

import fcntl
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from time import monotonic

from routing.shared.anonymous_file import anonymous_file
from routing.shared.prefix_news import PrefixNews

MAGIC = 0x53595046_00000002
GROUPS = 1024
"""With columns for as many replicas as have counters."""
COLUMNS = 16
"""Of a group."""
PLACES = 32_768
"""Of a column."""
TAG_BYTES = 4
OLDER = COLUMNS
"""From a newer tag to the older one."""
PLACE_TAGS = 2 * COLUMNS
"""From one place to the next."""
GROUP_TAGS = PLACES * PLACE_TAGS
UNTOUCHED_S = 600.0
FULL_S = 1.0
"""How long nobody asks again, once there was no column."""

_GROUP_BYTES = GROUP_TAGS * TAG_BYTES
_HEADER_BYTES = 64
_ALIGNED = 65_536
"""No smaller than a page of any system's memory."""
_NOBODY_ELSES = -1


class PrefixMemory:
    """One process's view of the block."""

    __slots__ = (
        "_clock",
        "_full_until",
        "_keys",
        "_map",
        "_owners",
        "_touched",
        "fd",
        "find",
        "groups",
        "groups_at",
        "identity",
        "news",
        "tags",
    )

    def __init__(self, fd: int, clock: Callable[[], float] = monotonic) -> None:
        """Map the block behind ``fd``. Raises ValueError when it is none of this version."""
        self.fd = fd
        self._clock = clock
        self._full_until = 0.0
        size = os.fstat(fd).st_size
        if size < _HEADER_BYTES:
            raise ValueError("the file descriptor holds no prefix memory")
        self._map = mmap.mmap(fd, size)
        whole = memoryview(self._map)
        header = whole[:_HEADER_BYTES].cast("Q")
        magic, self.groups = header[0], header[1]
        self.identity = header[2].to_bytes(8, sys.byteorder)
        """No other block of any host has it."""
        self.news = PrefixNews()
        """What this process notes, for other hosts."""
        header.release()
        if magic != MAGIC or size != _size(self.groups):
            raise ValueError("the file descriptor holds no prefix memory of this version")
        keys_at = _HEADER_BYTES + 8 * self.groups
        touched_at = keys_at + 8 * COLUMNS * self.groups
        self._owners = whole[_HEADER_BYTES:keys_at].cast("Q")
        self._keys = whole[keys_at:touched_at].cast("Q")
        self._touched = whole[touched_at : touched_at + 8 * COLUMNS * self.groups].cast("d")
        self.groups_at = _groups_at(self.groups)
        """Where the tags begin, in bytes."""
        self.tags = whole[self.groups_at :].cast("I")
        """Those of all groups."""
        self.find = self._map.find
        """Finds bytes in the block: ``find(bytes, begin, end)``, −1 if they are not there."""
        whole.release()

    @classmethod
    def create(cls, groups: int = GROUPS, clock: Callable[[], float] = monotonic) -> "PrefixMemory":
        """Make a block of so many groups; ``.fd`` is the caller's."""
        if groups < 2:
            raise ValueError("a prefix memory needs at least one group besides the first")
        fd = anonymous_file("switchyard-prefixes")
        os.ftruncate(fd, _size(groups))
        os.pwrite(fd, b"".join(n.to_bytes(8, sys.byteorder) for n in (MAGIC, groups)) + os.urandom(8), 0)
        return cls(fd, clock)

    @classmethod
    def private(cls) -> "PrefixMemory":
        """Of this process alone; gone with the last who uses it."""
        memory = cls.create()
        os.close(memory.fd)
        memory.fd = _NOBODY_ELSES
        return memory

    def claim(self, fleet: str, replicas: Sequence[str], places: int = PLACES) -> list[int]:
        """Where the column of each of these replicas begins among :attr:`tags`: the one that it has, or an
        empty one; 0: none was free. ``replicas``: keys that are the same in all workers. ``places``: how many
        of a column the fleet uses."""
        if self._clock() < self._full_until:
            return [0] * len(replicas)
        owner, numbers = _number(fleet), [_number(replica) for replica in replicas]
        keys, touched = self._keys, self._touched
        with self._locked():
            now = self._clock()
            own = [column for group in self._groups_of(owner) for column in _columns_of(group)]
            known = {keys[column]: column for column in own if touched[column]}
            columns = [known.get(number, 0) for number in numbers]
            for column in columns:
                if column:
                    touched[column] = now
            free = self._free(owner, own, now)
            for at, number in enumerate(numbers):
                if not columns[at] and (column := next(free, 0)):
                    if touched[column]:
                        self.clear(_begin_of(column), places)
                    keys[column], touched[column] = number, now
                    columns[at] = column
        if 0 in columns:
            self._full_until = now + FULL_S
        return [_begin_of(column) for column in columns]

    def touch(self, replica: str, begin: int) -> bool:
        """The column that begins there is in use. False: it is another replica's by now."""
        column = begin // GROUP_TAGS * COLUMNS + begin % GROUP_TAGS
        if self._keys[column] != _number(replica):
            return False
        self._touched[column] = self._clock()
        return True

    def clear(self, begin: int, places: int = PLACES) -> None:
        """Forget what is in the first places of the column that begins there."""
        nothing = memoryview(bytes(TAG_BYTES * places)).cast("I")
        for first in (begin, begin + OLDER):
            self.tags[first : first + (places - 1) * PLACE_TAGS + 1 : PLACE_TAGS] = nothing

    def age(self, begin: int, places: int = PLACES) -> None:
        """Newer tags of that column become the older ones, which are forgotten (aging): what is not noted
        again before the next time is then forgotten, too. What a worker notes at this moment may be lost."""
        end = begin + (places - 1) * PLACE_TAGS + 1
        self.tags[begin + OLDER : end + OLDER : PLACE_TAGS] = self.tags[begin:end:PLACE_TAGS]
        self.tags[begin:end:PLACE_TAGS] = memoryview(bytes(TAG_BYTES * places)).cast("I")

    def digest_at(self, begin: int) -> bytes:
        """:func:`digest` of the replica whose column begins there."""
        return self._keys[begin // GROUP_TAGS * COLUMNS + begin % GROUP_TAGS].to_bytes(8, sys.byteorder)

    def used(self) -> int:
        """How many columns are some replica's."""
        return sum(1 for touched in self._touched if touched)

    def close(self) -> None:
        """Unmap the block; the descriptor stays the caller's."""
        for view in (self._owners, self._keys, self._touched, self.tags):
            view.release()
        self._map.close()

    def _groups_of(self, owner: int) -> list[int]:
        return [group for group, fleet in enumerate(self._owners) if fleet == owner]

    def _free(self, owner: int, own: Sequence[int], now: float) -> Iterator[int]:
        """Columns that a fleet may use: of its own groups, then of others."""
        touched = self._touched

        def is_free(column: int) -> bool:
            return not touched[column] or now - touched[column] >= UNTOUCHED_S

        yield from filter(is_free, own)
        for group in range(1, self.groups):
            columns = _columns_of(group)
            if self._owners[group] != owner and all(map(is_free, columns)):
                if any(touched[column] for column in columns):
                    self._empty(group)
                self._owners[group] = owner
                yield from columns

    def _empty(self, group: int) -> None:
        """Forget all that is in a group, and free its memory."""
        for column in _columns_of(group):
            self._keys[column], self._touched[column] = 0, 0.0
        begin = self.groups_at + group * _GROUP_BYTES
        if hasattr(mmap, "MADV_REMOVE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_REMOVE, begin, _GROUP_BYTES)
                return
        self._map[begin : begin + _GROUP_BYTES] = bytes(_GROUP_BYTES)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # The lock belongs to the process and ends with it. Only one thread of a process claims columns.
        if self.fd == _NOBODY_ELSES:
            yield
            return
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)


def _columns_of(group: int) -> range:
    return range(group * COLUMNS, (group + 1) * COLUMNS)


def _begin_of(column: int) -> int:
    """0, of none."""
    return column // COLUMNS * GROUP_TAGS + column % COLUMNS


def digest(key: str) -> bytes:
    """Eight bytes that stand for a replica's key, the same on every host."""
    return blake2b(key.encode(), digest_size=8).digest()


def _number(key: str) -> int:
    return int.from_bytes(digest(key), sys.byteorder)


def _groups_at(groups: int) -> int:
    directory_end = _HEADER_BYTES + groups * 8 * (1 + 2 * COLUMNS)
    return -(-directory_end // _ALIGNED) * _ALIGNED


def _size(groups: int) -> int:
    return _groups_at(groups) + groups * _GROUP_BYTES
