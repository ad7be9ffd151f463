"""The error event of each protocol."""

import json

from routing.protocols.answer_shape import CHOICES, CONTENT, OUTPUT
from routing.protocols.stream_error import error_event


def data_of(event: bytes) -> dict[str, object]:
    line = event.rstrip(b"\n").splitlines()[-1]
    found: dict[str, object] = json.loads(line.removeprefix(b"data: "))
    return found


def test_chat_gets_an_error_object() -> None:
    event = error_event(CHOICES, 502, "truncated", "it ended", "id", b"data: x\n\n")
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    error = {"message": "it ended", "type": "server_error", "code": "truncated", "param": None}
    assert data_of(event) == {"error": error}


def test_responses_have_a_number_after_the_last() -> None:
    tail = b'data: {"type":"a","sequence_number":7}\n\n'
    event = error_event(OUTPUT, 502, "truncated", "it ended", "id", tail)
    assert event.startswith(b"event: error\n")
    said = data_of(event)
    assert (said["type"], said["code"], said["sequence_number"]) == ("error", "truncated", 8)
    assert said["error"]
    assert data_of(error_event(OUTPUT, 502, "truncated", "it ended", "id", b""))["sequence_number"] == 0


def test_messages_get_anthropics() -> None:
    event = error_event(CONTENT, 504, "timeout", "it stalled", "req-1", b"")
    said = data_of(event)
    assert event.startswith(b"event: error\n")
    assert (said["type"], said["request_id"]) == ("error", "req-1")
    assert said["error"] == {
        "type": "timeout_error",
        "message": "it stalled",
        "details": {"error_code": "timeout"},
    }


def test_an_event_that_broke_off_is_ended_first() -> None:
    assert error_event(CHOICES, 502, "c", "m", "", b'data: {"cho').startswith(b"\n\ndata: ")
    assert error_event(CHOICES, 502, "c", "m", "", b"data: {}\r\n\r\n").startswith(b"data: ")
