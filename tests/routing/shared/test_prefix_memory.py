"""The memory of prompts that a host's workers share: whose columns are whose, and how long."""

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from routing.shared import prefix_memory
from routing.shared.prefix_memory import (
    COLUMNS,
    GROUP_TAGS,
    OLDER,
    PLACE_TAGS,
    PLACES,
    UNTOUCHED_S,
    PrefixMemory,
)
from tests.clock import Clock


def tags_of(memory: PrefixMemory, column: int, places: int = PLACES) -> list[int]:
    """The first tag of each place."""
    return memory.tags[column : column + places * PLACE_TAGS : PLACE_TAGS].tolist()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Iterator[PrefixMemory]:
    made = PrefixMemory.create(groups=4, clock=clock)
    yield made
    made.close()
    os.close(made.fd)


def test_a_replica_has_the_same_column_in_every_process_and_others_have_other_ones(
    memory: PrefixMemory,
) -> None:
    other = PrefixMemory(memory.fd)
    columns = memory.claim("llm", ["a", "b", "c"])
    assert len({*columns, 0}) == 4
    assert other.claim("llm", ["c", "a", "d", "b"])[:2] == [columns[2], columns[0]]
    assert memory.used() == 4
    memory.tags[columns[0] + PLACE_TAGS] = 1 << 31
    assert tags_of(other, columns[0], 2) == [0, 1 << 31]
    other.close()


def test_replicas_of_a_fleet_stand_together_and_no_two_fleets_do(memory: PrefixMemory) -> None:
    one = memory.claim("one", [f"{number}" for number in range(COLUMNS + 1)])
    two = memory.claim("two", ["0"])
    assert [column // GROUP_TAGS for column in (*one, *two)] == [1] * COLUMNS + [2, 3]
    assert sorted(column % GROUP_TAGS for column in one[:COLUMNS]) == list(range(COLUMNS))
    assert memory.claim("three", ["0", "1"]) == [0, 0], "there is no further group"


def test_who_found_no_column_asks_again_a_second_later(memory: PrefixMemory, clock: Clock) -> None:
    names = [f"{number}" for number in range(3 * COLUMNS + 1)]
    assert memory.claim("llm", names).count(0) == 1
    assert memory.claim("llm", ["0"]) == [0]
    clock.now += 1
    assert memory.claim("llm", ["0"]) != [0]


def _write(fd: int, name: str, tag: int) -> None:
    memory = PrefixMemory(fd)
    (column,) = memory.claim("llm", [name])
    for at in range(0, GROUP_TAGS, PLACE_TAGS):
        memory.tags[column + at] = tag


def test_processes_that_write_the_same_places_at_once_leave_whole_tags(memory: PrefixMemory) -> None:
    fork = multiprocessing.get_context("fork")
    tags = (0x11111111, 0x22222222, 0x44444444)
    writers = [fork.Process(target=_write, args=(memory.fd, "a", tag)) for tag in tags]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert memory.used() == 1
    assert set(tags_of(memory, *memory.claim("llm", ["a"]))) <= set(tags)


def test_a_column_that_is_touched_is_kept_and_one_that_is_not_is_given_away_empty(
    memory: PrefixMemory, clock: Clock
) -> None:
    kept, left, *others = memory.claim("llm", [f"{number}" for number in range(COLUMNS)])
    for column in (kept, left):
        for place in (0, PLACES - 1):
            memory.tags[column + place * PLACE_TAGS] = memory.tags[column + place * PLACE_TAGS + OLDER] = 5
    clock.now += UNTOUCHED_S - 1
    for name, column in (("0", kept), *((f"{2 + at}", column) for at, column in enumerate(others))):
        assert memory.touch(name, column)
    clock.now += 1
    assert memory.claim("llm", ["new"]) == [left]
    ends = [
        column + place * PLACE_TAGS + way
        for column in (kept, left)
        for place in (0, PLACES - 1)
        for way in (0, OLDER)
    ]
    assert [memory.tags[at] for at in ends] == [5] * 4 + [0] * 4
    assert not memory.touch("1", left)
    assert memory.touch("new", left)


def test_one_that_nobody_has_touched_is_still_known_if_it_was_not_given_away(
    memory: PrefixMemory, clock: Clock
) -> None:
    first, second = memory.claim("llm", ["a", "b"])
    clock.now += 10 * UNTOUCHED_S
    assert memory.claim("llm", ["new", "b"])[1] == second
    assert memory.claim("llm", ["a"])[0] != second
    assert first


@pytest.mark.parametrize("frees", [True, False])
def test_a_group_that_nobody_has_touched_goes_to_another_fleet_empty(
    memory: PrefixMemory, clock: Clock, frees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system can free its memory, and where it cannot."""
    if not frees:
        monkeypatch.delattr(prefix_memory.mmap, "MADV_REMOVE", raising=False)
    groups = [memory.claim(fleet, ["a"])[0] for fleet in ("one", "two", "three")]
    for begin in groups:
        for at in (begin, begin + GROUP_TAGS - 1):
            memory.tags[at] = 5
    clock.now += UNTOUCHED_S - 1
    memory.touch("a", groups[0])
    memory.touch("a", groups[2])
    clock.now += 1
    assert memory.claim("four", ["a"]) == [groups[1]]
    ends = [(memory.tags[begin], memory.tags[begin + GROUP_TAGS - 1]) for begin in groups]
    assert ends == [(5, 5), (0, 0), (5, 5)]
    assert memory.claim("two", ["a"]) == [0]


def test_clearing_a_column_leaves_those_beside_it_and_what_is_further_down(memory: PrefixMemory) -> None:
    columns = memory.claim("llm", [f"{number}" for number in range(COLUMNS)])
    for at in range(GROUP_TAGS, GROUP_TAGS + 3 * PLACE_TAGS):
        memory.tags[at] = 5
    memory.clear(columns[COLUMNS - 1], places=2)
    for number, column in enumerate(columns):
        assert tags_of(memory, column, 3) == ([0, 0, 5] if number == COLUMNS - 1 else [5, 5, 5])


def test_memory_of_one_process_keeps_no_descriptor() -> None:
    made = [PrefixMemory.private() for _ in range(3)]
    assert all(one.claim("llm", ["a"])[0] for one in made)
    assert {one.fd for one in made} == {-1}
    for one in made:
        one.close()


def test_what_is_no_such_memory_is_refused(tmp_path: Path) -> None:
    for size in (0, 63, 64, 4096):
        file = tmp_path / str(size)
        file.write_bytes(bytes(size))
        with file.open("r+b") as opened, pytest.raises(ValueError, match="holds no prefix memory"):
            PrefixMemory(opened.fileno())
    with pytest.raises(ValueError, match="besides the first"):
        PrefixMemory.create(groups=1)
