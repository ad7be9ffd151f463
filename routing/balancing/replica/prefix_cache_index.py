"""Prefix cache index: which prompts' prefixes a replica was sent lately, by their hashes (KV cache).

Theory. A prefix is known at a replica if the replica's column of the prefix memory
(:mod:`routing.shared.prefix_memory`) has its tag. A prompt's prefixes are noted together, the shortest first,
so where one is known, nearly always all before it are: searches go by halves. Of half as many prefixes as a
column has tags, nine in ten outlive as many others.

Most questions are who of a fleet knows most of a prompt. :class:`Candidates` answers by groups of columns: as
long as it is only asked whether anybody knows a prefix, sixteen replicas take one look.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import eq
from sys import byteorder

from routing.balancing.replica.state import Replica
from routing.contract.table import ReplicaSpec
from routing.shared.prefix_memory import (
    COLUMNS,
    GROUP_TAGS,
    OLDER,
    PLACE_TAGS,
    PLACES,
    TAG_BYTES,
    PrefixMemory,
)

LEAST_PLACES = 32
"""Of a group: 4 KiB, the least that a system gives memory in."""
HIGH_BITS = 32
"""A hash without its low ones is the tag."""
_NO_TAG = -1
_PLACE_BYTES = PLACE_TAGS * TAG_BYTES
_LAST_ONES = 4


class PrefixCacheIndex:
    """One fleet's part of a prefix memory. The same in all workers, if their tables are."""

    __slots__ = ("fleet", "low_bits", "memory", "places", "tags")

    def __init__(self, memory: PrefixMemory, fleet: str, replicas: int, memory_mb: int) -> None:
        """``memory_mb``: MiB that all of the fleet's ``replicas`` may use together."""
        self.memory = memory
        self.tags = memory.tags
        self.fleet = fleet
        groups = max(1, -(-replicas // COLUMNS))
        most = (memory_mb << 20) // (groups * _PLACE_BYTES)
        self.places = min(PLACES, 1 << max(LEAST_PLACES, most).bit_length() - 1)
        """A power of two, so that half of what is known stays where it is when the fleet gets so many
        replicas that each may have half as many."""
        self.low_bits = (self.places - 1) * PLACE_TAGS
        """Those of a hash that say at which place of a group it is."""

    def introduce(self, replicas: Sequence[Replica]) -> None:
        """Give those of them a column that have none, as long as there are any."""
        new = [replica for replica in replicas if not replica.prefix_column]
        if new:
            columns = self.memory.claim(self.fleet, [column_key(replica) for replica in new], self.places)
            for replica, column in zip(new, columns, strict=True):
                replica.prefix_column = column

    def note(self, column: int, key: Sequence[int], known: int = 0) -> list[int]:
        """The replica of that column is sent a prompt with these hashes. Returns those of them that were not
        known there. ``known``: so many are, and have been used lately: they are passed over."""
        tags, low_bits = self.tags, self.low_bits
        new = []
        for hash in key[known:]:
            newer = column + (hash & low_bits)
            tag = hash >> HIGH_BITS
            before = tags[newer]
            if before != tag:
                if tags[newer + OLDER] != tag:
                    new.append(hash)
                tags[newer + OLDER] = before
                tags[newer] = tag
        return new

    def length(self, column: int, key: Sequence[int], least: int) -> int:
        """How many of a prompt's hashes are known there. ``least``: so many are known already."""
        tags, low_bits = self.tags, self.low_bits
        most = len(key)
        while least < most:
            middle = (least + most) // 2
            hash = key[middle]
            newer = column + (hash & low_bits)
            if hash >> HIGH_BITS in (tags[newer], tags[newer + OLDER]):
                least = middle + 1
            else:
                most = middle
        return least

    def longest(
        self,
        replicas: Iterable[Replica],
        key: Sequence[int],
        length: int = 0,
        before: Sequence[Replica] = (),
    ) -> tuple[int, list[Replica]]:
        """How many of a prompt's hashes are known at most at one of these, and at which; 0: at none.
        ``length``, ``before``: the same of others, which count as well."""
        tags, low_bits = self.tags, self.low_bits
        holders = list(before)
        # Places and tags of the last of these hashes, and of the first that is known at none of the holders.
        last, last_tag = _place_and_tag(key, max(0, length - 1), low_bits)
        following, following_tag = _place_and_tag(key, length, low_bits)
        for replica in replicas:
            column = replica.prefix_column
            at = column + last
            # Where one is known, all before it are.
            if tags[at] == last_tag or tags[at + OLDER] == last_tag:
                at = column + following
                if tags[at] == following_tag or tags[at + OLDER] == following_tag:
                    length = self.length(column, key, length + 1)
                    holders = [replica]
                    last, last_tag = _place_and_tag(key, length - 1, low_bits)
                    following, following_tag = _place_and_tag(key, length, low_bits)
                else:
                    holders.append(replica)
        return length, holders


class Candidates:
    """A list of replicas that is asked of many prompts."""

    __slots__ = ("_begins", "_groups", "_index", "_replicas")

    def __init__(self, index: PrefixCacheIndex, replicas: Sequence[Replica]) -> None:
        """Replicas without a column know nothing."""
        self._index = index
        self._replicas = replicas
        groups: dict[int, list[Replica | None]] = {}
        for replica in replicas:
            group, column = divmod(replica.prefix_column, GROUP_TAGS)
            if replica.prefix_column:
                groups.setdefault(group, [None] * COLUMNS)[column] = replica
        self._groups = [(group * GROUP_TAGS, columns) for group, columns in groups.items()]
        begin = index.memory.groups_at
        self._begins = [begin + group * TAG_BYTES for group, _ in self._groups]
        """In bytes of the whole block."""

    def longest(self, key: Sequence[int]) -> tuple[int, list[Replica]]:
        """As :meth:`PrefixCacheIndex.longest`, of all of them."""
        find, low_bits, begins = self._index.memory.find, self._index.low_bits, self._begins
        least, most = 0, len(key)
        # Most prompts go on where one before ended, or are new from the first words on.
        middle = max(0, most - _LAST_ONES)
        while least < most:
            hash = key[middle]
            place = (hash & low_bits) * TAG_BYTES
            tag = (hash >> HIGH_BITS).to_bytes(TAG_BYTES, byteorder)
            for begin in begins:
                at = begin + place
                # A tag that is found across two others is as rare as one that two prefixes have.
                if find(tag, at, at + _PLACE_BYTES) >= 0:
                    least = middle + 1
                    middle = (least + most) // 2
                    break
            else:
                most = middle
                middle = (least + most) // 2 if least else most // 8
        if not least:
            return 0, []
        holders = self._holders(key[least - 1])
        # Else only others of these groups know it, which are not among the candidates now.
        return (least, holders) if holders else self._index.longest(self._replicas, key)

    def _holders(self, hash: int) -> list[Replica]:
        find = self._index.memory.find
        place, tag = hash & self._index.low_bits, hash >> HIGH_BITS
        found = tag.to_bytes(TAG_BYTES, byteorder)
        holders: list[Replica | None] = []
        for (group, columns), begin in zip(self._groups, self._begins, strict=True):
            first = begin + place * TAG_BYTES
            at = find(found, first, first + _PLACE_BYTES)
            if at < 0:
                continue
            if find(found, at + TAG_BYTES, first + _PLACE_BYTES) < 0:
                holders.append(columns[(at - first) // TAG_BYTES % COLUMNS])
                continue
            tags = self._index.tags[group + place : group + place + PLACE_TAGS].tolist()
            holders += compress(columns + columns, map(eq, tags, repeat(tag)))
        return [replica for replica in holders if replica is not None]


def _place_and_tag(key: Sequence[int], number: int, low_bits: int) -> tuple[int, int]:
    """A tag that is nowhere, of what is behind the last hash."""
    if number == len(key):
        return 0, _NO_TAG
    return key[number] & low_bits, key[number] >> HIGH_BITS


def column_key(replica: Replica) -> str:
    """By which its column is claimed: what is at another address has another cache."""
    return spec_key(replica.spec)


def spec_key(spec: ReplicaSpec) -> str:
    """:func:`column_key`, where there is only the table."""
    return f"{spec.uid} {spec.url}"
