"""What a client gets, in the words of the page: docs/answers.md."""

from __future__ import annotations

from tests.routing.proxy.answers.calls import TEXT, Call
from tests.routing.proxy.rig import Answer

WHOLE = "whole"
PARTLY = "partly, then an error event"
FILTERED = "all, with `content_filter`"
CUT = "partly, and cut off"
"""An answer that is not streamed and is not held: incomplete by its framing."""
UNREADABLE = "what is no JSON"
"""Never."""
LOOKS_WHOLE = "truncated, and looks whole"
"""Never."""


def outcome_of(call: Call, answer: Answer) -> str:
    """One of the above, or the status of an error response and its code."""
    read = call.read(answer)
    if answer.status != 200:
        assert answer.complete
        assert read.error is not None
        code = read.error.get("code") or read.error.get("details", {}).get("error_code")
        return f"{answer.status} `{code}`"
    if read.error is not None:
        assert not read.ended
        assert not answer.complete
        assert TEXT.startswith(read.text)
        return PARTLY
    if not answer.complete:
        return CUT
    if read.reason == "content_filter":
        return FILTERED
    if not read.is_readable:
        return UNREADABLE
    return WHOLE if read.text == TEXT and read.ended else LOOKS_WHOLE
