"""Model of an answer: read where the protocol has it, and nowhere else."""

import pytest

from routing.proxy.tracing.answer_model import model_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "model"),
    [
        (HEAD + b'{"choices":[{"message":{"content":"\\"model\\": \\"x\\""}}],"model":"m"}', "m"),
        (b'{"model":"m","choices":[{"text":"data: {\\"model\\":\\"x\\"}"}]}', "m"),
        (HEAD + b'1f\r\ndata: {"model":"m","choices":[]}\n\n\r\n', "m"),
        (b'data: {"model":"m"}\n\ndata: {"model":"n"}\n\n', "m"),
        (b'event: message_start\ndata: {"type":"message_start","message":{"model":"claude"}}\n\n', "claude"),
        (b'data: {"choices":[{"delta":{"content":"{\\"model\\":\\"x\\"}"}}]}\n\n', ""),
        (HEAD, ""),
        (HEAD + b'{"model": 3}', ""),
        (HEAD + b'{"model": "cut', ""),
        (b": comment\n\n", ""),
        (b"data: [DONE]\n\n", ""),
        (HEAD + b'{"model":"m"' + b" " * (1 << 20) + b"}", ""),
    ],
)
def test_where_it_is(data: bytes, model: str) -> None:
    assert model_of(data) == model
