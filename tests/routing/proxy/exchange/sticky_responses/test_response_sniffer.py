"""Response sniffer: its work and memory for each piece of a response, however many came before."""

from types import SimpleNamespace
from typing import Any

import pytest

from routing.protocols.openai_responses import MOST_BYTES, CreatedIdSearch
from routing.proxy.exchange.response_sniffer import ResponseSniffer
from routing.shared.sticky_ids import ReplicaRef
from tests.call_counts import calls

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"type":"delta","delta":"x"}\n\n'
CREATED = b'data: {"response":{"id":"resp_1","conversation":{"id":"conv_1"}}}\n\n'


class Registry:
    def __init__(self) -> None:
        self.learned: dict[str, ReplicaRef] = {}

    def learn(self, name: str, replica_ref: ReplicaRef) -> None:
        self.learned[name] = replica_ref


def sniffer() -> tuple[ResponseSniffer, dict[str, ReplicaRef]]:
    registry = Registry()
    replica = SimpleNamespace(uid="f-a", name="a")
    exchange: Any = SimpleNamespace(
        pool=SimpleNamespace(name="f"),
        attempt=SimpleNamespace(replica=replica),
        proxy=SimpleNamespace(sticky_registry=registry),
    )
    return ResponseSniffer(exchange), registry.learned


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("size", [len(chunk(EVENT)), 1])
def test_an_event_costs_the_same_however_many_came_before(size: int) -> None:
    listener, _ = sniffer()
    assert listener(HEAD)
    event = chunk(EVENT)
    pieces = [event[at : at + size] for at in range(0, len(event), size)]
    costs = [calls(lambda: [listener(piece) for piece in pieces]) for _ in range(500)]
    assert costs[-1] == costs[1]


def test_of_a_stream_only_the_line_that_has_not_come_whole_is_held() -> None:
    search = CreatedIdSearch(events=True)
    for _ in range(1000):
        assert search.feed(EVENT) is None
        assert search.held == 0
        assert search.feed(EVENT + EVENT[:10]) is None
        assert search.held == 10
        assert search.feed(EVENT[10:]) is None
    assert not search.exhausted


@pytest.mark.parametrize("size", [1, 7, len(CREATED), 10_000])
def test_ids_are_learned_in_pieces_of_every_size(size: int) -> None:
    listener, learned = sniffer()
    stream = HEAD + b"".join(map(chunk, [EVENT, b'data: {"note": "response"}\n\n', EVENT + CREATED, EVENT]))
    at = stream.index(b"\r\n\r\n") + 4
    assert listener(stream[:at])
    while listener(stream[at : at + size]):
        at += size
    assert learned == dict.fromkeys(("resp_1", "conv_1"), ReplicaRef("f", "f-a", "a"))


def test_an_event_with_that_word_elsewhere_does_not_hide_the_next() -> None:
    search = CreatedIdSearch(events=True)
    assert search.feed(b'data: {"response": 1}\n\ndata: "response" {\n\n') is None
    assert search.feed(CREATED) == ("resp_1", "conv_1")


def test_the_search_of_a_stream_ends() -> None:
    search = CreatedIdSearch(events=True)
    while not search.exhausted:
        assert search.feed(b"x" * 4096) is None
    assert search.held == MOST_BYTES


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_json_answer_is_read_in_pieces_of_every_size(size: int) -> None:
    answer = b'{"output": [{"a": {}}, {"b": "}"}], "id": "resp_2"} \n'
    search = CreatedIdSearch(events=False)
    found = [search.feed(answer[at : at + size]) for at in range(0, len(answer), size)]
    assert [names for names in found if names is not None] == [("resp_2",)]


def test_a_json_answer_that_looks_complete_all_the_time_is_given_up() -> None:
    search = CreatedIdSearch(events=False)
    search.feed(b'{"id": "')
    pieces = 0
    while not search.exhausted:
        assert search.feed(b"}") is None
        pieces += 1
    assert pieces < 5000
