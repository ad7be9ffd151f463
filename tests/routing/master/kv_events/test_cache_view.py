"""What KV events tell of one cache: what it holds, how long blocks stay, and when it was emptied."""

import msgspec

from routing.master.kv_events.cache_view import LEAST, MOST_BLOCKS, CacheView


class Publisher:
    """One view, and the messages that it is given."""

    def __init__(self) -> None:
        self.view = CacheView()
        self.sequence = 0

    def send(self, *events: object, now: float = 0.0) -> bool:
        self.sequence += 1
        return self.view.take(self.sequence, msgspec.msgpack.encode([0.0, events]), now)


def stored(*blocks: int, size: int = 16, medium: str | None = "GPU") -> list[object]:
    return ["BlockStored", blocks, None, [1] * size * len(blocks), size, None, medium]


def removed(*blocks: int, medium: str | None = "GPU") -> list[object]:
    return ["BlockRemoved", blocks, medium]


def test_tokens_are_those_of_the_blocks_that_are_there() -> None:
    one = Publisher()
    assert not one.send(stored(1, 2, 3), stored(3, 4))
    assert one.view.tokens_held == 4 * 16
    one.send(removed(2, 9))
    assert one.view.tokens_held == 3 * 16
    one.send(stored(7, medium="CPU"), removed(3, medium="CPU"))
    assert one.view.tokens_held == 3 * 16, "what is not on the GPU is not counted"


def test_of_several_groups_of_layers_one_that_keeps_whole_prompts_is_listed() -> None:
    def of(group: int, kind: str, *blocks: int) -> list[object]:
        return [*stored(*blocks), None, None, group, kind]

    one = Publisher()
    one.send(of(0, "sliding_window", 1, 2), of(1, "full_attention", 1, 2, 3), of(2, "full_attention", 1, 8))
    assert one.view.tokens_held == 3 * 16
    one.send([*removed(1), 0], [*removed(2, 3), 2])
    assert one.view.tokens_held == 3 * 16, "those of other groups"
    one.send([*removed(1), 1])
    assert one.view.tokens_held == 2 * 16


def test_the_age_is_the_median_of_the_latest_that_were_dropped() -> None:
    one = Publisher()
    for block in range(LEAST):
        one.send(stored(block), now=float(block))
    for block in range(LEAST - 1):
        one.send(removed(block), now=100.0 + 2 * block)
    assert one.view.block_age_s is None
    one.send(removed(LEAST - 1), now=100.0 + 2 * LEAST)
    assert one.view.block_age_s is not None
    assert abs(one.view.block_age_s - (100.0 + LEAST / 2)) < 2.0


def test_an_emptied_cache_and_a_publisher_that_was_started_again_are_told() -> None:
    one = Publisher()
    one.send(stored(1))
    assert one.send(["AllBlocksCleared"], stored(2))
    assert one.view.tokens_held == 16
    for _ in range(5):
        assert not one.send()
    one.sequence = 0
    assert one.send(stored(5)), "its numbers begin again"
    assert (one.view.tokens_held, one.view.clears) == (16, 2)


def test_after_missed_messages_the_list_begins_anew() -> None:
    one = Publisher()
    one.send(stored(1, 2))
    one.sequence += 3
    assert not one.send(stored(3)), "that empties no cache"
    assert (one.view.tokens_held, one.view.missed) == (16, 3)


def test_the_list_of_blocks_is_bounded() -> None:
    one = Publisher()
    step = MOST_BLOCKS // 4
    for at in range(0, 5 * step, step):
        one.send(stored(*range(at, at + step), size=1))
    assert one.view.tokens_held == MOST_BLOCKS
    one.send(removed(*range(step)), stored(-1, size=1))
    assert one.view.tokens_held == 3 * step + 1
