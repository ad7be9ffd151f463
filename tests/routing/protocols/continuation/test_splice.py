"""The seam: stop strings across it, white space, usage, and what a second replica says amiss."""

import json

from routing.protocols.continuation.next_request import COMPLETION, next_request
from routing.protocols.continuation.said import said_in
from routing.protocols.continuation.splice import Splice
from tests.routing.protocols.continuation.streams import Model, Read, request_body


def spliced(tokens: list[str], before: int, **fields: object) -> bytes:
    """The client's stream if so many events had come."""
    model = Model(tokens, "vllm", chat=False)
    body = request_body(False, **fields)
    events = model.stream(json.loads(body), "first").split(b"\n\n")[:before]
    sent = b"".join(event + b"\n\n" for event in events)
    said = said_in(sent)
    request = next_request(COMPLETION, body, said, "vllm")
    splice = Splice(said, request)
    return sent + splice.begin() + splice.feed(model.stream(json.loads(request.body), "second"))


def test_a_stop_string_that_began_before_the_seam_ends_the_answer() -> None:
    read = Read(spliced(["a", "EN", "D", "more"], 2, stop=["END"]))
    assert read.text == "aEN"
    assert read.reasons == ["stop"]


def test_its_usage_is_still_heard_of() -> None:
    sent = spliced(["a", "EN", "D", "more"], 2, stop="END", stream_options={"include_usage": True})
    read = Read(sent)
    assert read.text == "aEN"
    assert read.reasons == ["stop"]
    assert read.usages == [{"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}]


def test_what_only_began_like_a_stop_string_is_said() -> None:
    assert Read(spliced(["a", "E", "N", "X", "more"], 2, stop=["END"])).text == "aENXmore"
    assert Read(spliced(["a", "E", "N"], 2, stop=["END"])).text == "aEN"


def test_a_stop_string_of_the_second_part_is_the_server_s_affair() -> None:
    assert Read(spliced(["a", "b", "END", "c"], 1, stop=["END"])).text == "abENDc"
