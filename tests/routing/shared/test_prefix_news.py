"""What a worker gathers for other hosts: only if somebody takes it, and no more than there is room for."""

from routing.shared.prefix_news import Note, PrefixNews


def test_what_is_new_comes_first_and_what_is_used_again_fills_the_rest() -> None:
    news = PrefixNews()
    news.begin(room=5)
    assert news.open
    news.add("llm", 256, 3, [], [1, 2])
    news.add("llm", 256, 4, [6], [4, 5])
    news.add("llm", 64, 3, [7, 8], [])
    assert news.take() == [
        Note("llm", 256, 4, [6]),
        Note("llm", 64, 3, [7, 8]),
        Note("llm", 256, 3, [1, 2]),
    ]
    assert news.take() == []
    assert news.left_out == 0


def test_what_finds_no_room_is_left_out_and_counted_until_there_is_room_again() -> None:
    news = PrefixNews()
    news.begin(room=3)
    news.add("llm", 256, 3, [1, 2], [])
    news.add("llm", 256, 3, [3, 4], [])
    news.add("llm", 256, 3, [5], [])
    assert news.left_out == 2
    assert [note.hashes for note in news.take()] == [[1, 2], [5]]
    news.begin(room=3)
    news.add("llm", 256, 3, [3, 4], [])
    assert [note.hashes for note in news.take()] == [[3, 4]]


def test_once_nobody_takes_it_nothing_is_kept() -> None:
    news = PrefixNews()
    assert not news.open
    news.begin(room=3)
    news.add("llm", 256, 3, [1], [2])
    news.stop()
    assert not news.open
    assert news.take() == []
