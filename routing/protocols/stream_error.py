"""Stream error: the event that tells a client of an event stream that its answer will not be completed.

Each protocol has a form for it. The packages of OpenAI and Anthropic raise an exception at these:

- OpenAI chat and completions: ``data: {"error": …}``.
- OpenAI responses: an event ``error``. The package raises at its member ``error``, the reference names
  ``code``, ``message``, ``param`` and ``sequence_number``: it has both.
- Anthropic messages: an event ``error`` with the same object as an error response.

Source: the API references of OpenAI (errors, responses streaming events) and Anthropic (streaming messages).
"""

import msgspec

from routing.protocols import answer_shape, anthropic, openai
from routing.protocols.stream_end import last_sequence_number

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def error_event(mark: bytes, status: int, code: str, message: str, request_id: str, tail: bytes) -> bytes:
    """The event, for a call with this mark (:mod:`routing.protocols.answer_shape`). ``status``: that an
    error response would have. ``tail``: the last bytes that the client has got; an event that broke off in
    them is ended first."""
    ends = b"" if not tail or tail.endswith(_EVENT_ENDS) else b"\n\n"
    if mark is answer_shape.CONTENT:
        body = anthropic.error_body(status, code, message, request_id)
        return b"%bevent: error\ndata: %b\n\n" % (ends, body)
    body = openai.error_body(status, code, message)
    if mark is answer_shape.OUTPUT:
        number = last_sequence_number(tail) + 1
        body = _of_responses(code, message, number, msgspec.Raw(body))
        return b"%bevent: error\ndata: %b\n\n" % (ends, body)
    return b"%bdata: %b\n\n" % (ends, body)


class _WithError(msgspec.Struct):
    error: msgspec.Raw


def _of_responses(code: str, message: str, number: int, body: msgspec.Raw) -> bytes:
    error = msgspec.json.decode(body, type=_WithError).error
    members = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": number}
    return msgspec.json.encode(members | {"error": error})
