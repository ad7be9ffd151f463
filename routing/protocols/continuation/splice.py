"""Splice: one stream out of the first part of an answer and what another replica adds.

What the client has not had is put in the form of what it has: the same ``id``, ``created`` and ``model``, no
second role, and what comes twice only once: white space, or all that was said, which some servers repeat. The
usage is that of the whole answer: what the second replica has read as its prompt was said by the first as far
as the request repeats it. A stop string that began before the seam ends the answer where it is complete.

Only whole events go on: the rest of a piece waits for its end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.continuation.next_request import NextRequest
from routing.protocols.continuation.said import DONE, Said, data_of, whole_events

COMMENT = b": continued by another replica\n\n"
DONE_EVENT = b"data: [DONE]\n\n"

_decode: Any = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


class Splice:
    """Feed it what the second replica sends; get what the client is to have of it."""

    def __init__(self, said: Said, request: NextRequest) -> None:
        self._said = said
        self._expected = request.expected
        self._tokens, self._all_tokens = request.tokens, request.all_tokens
        self._closes = request.closes
        self._wants_usage = request.wants_usage
        self._partial = b""
        longest = max(map(len, request.stops), default=0)
        self._stops = request.stops
        self._before = said.text[-(longest - 1) :] if longest > 1 else ""
        """The end of the first part, in which a stop string may have begun."""
        self._held = ""
        """Text that may be the rest of such a one."""
        self._watches = bool(self._before) and self._stop_may_go_on("")
        self.output_tokens = self.prompt_tokens = 0
        """Of the whole answer, as the second replica's usage has it; 0: it has said nothing of that."""
        self.is_over = False
        """Whether the answer's last event has passed."""
        self.finished = bool(request.closes)
        """Whether the reason for its end was told."""

    def begin(self, echoes: bool = False) -> bytes:
        """The events that come first. ``echoes``: the second replica repeats what it continues."""
        if echoes:
            self._expected = self._said.text
        if self._closes and self._said.finish_reason is None:
            return COMMENT + self._finish(self._closes)
        return COMMENT

    def feed(self, piece: bytes) -> bytes:
        """The events for the client in more of the stream."""
        text = self._partial + piece
        end = whole_events(text)
        self._partial = text[end:]
        return b"".join(map(self._event, _events(text[:end]))) if end else b""

    def _event(self, event: bytes) -> bytes:
        data = data_of(event)
        if data is None:
            return event + b"\n\n" if event.strip() else b""
        if self.is_over:
            return b""
        if data.strip() == DONE:
            self.is_over = True
            return self._release() + DONE_EVENT
        try:
            chunk = _decode(data)
        except DECODE_ERRORS:
            return event + b"\n\n"
        if chunk.get("error") is not None:
            return event + b"\n\n"
        return self._chunk(chunk)

    def _chunk(self, chunk: dict[str, Any]) -> bytes:
        self._rename(chunk)
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._add_up(usage)
        choices = chunk.get("choices")
        if not choices or not isinstance(choices, list) or not isinstance(choices[0], dict):
            return self._release() + _event_of(chunk) if not self._closes or self._wants_usage else b""
        if self.finished and self._closes:
            return b""
        before = b""
        choice = choices[0]
        finish = choice.get("finish_reason")
        holder, name = choice, "text"
        delta = choice.get("delta")
        if isinstance(delta, dict):
            holder, name = delta, "content"
            role = delta.pop("role", None) if self._said.role_sent else None
            if role is not None and finish is None and not any(delta.values()):
                return b""
        text = holder.get(name)
        if isinstance(text, str) and text:
            text = self._without_expected(text)
            text = self._watched(text)
            if self._closes:
                return self._finish(self._closes)
            if not text and finish is None:
                return b""
            holder[name] = text
        if finish is not None:
            self.finished = True
            before = self._release()
        return before + _event_of(chunk)

    def _rename(self, chunk: dict[str, Any]) -> None:
        for name in ("id", "created", "model"):
            value = getattr(self._said, name)
            if value is not None and name in chunk:
                chunk[name] = value

    def _add_up(self, usage: dict[str, Any]) -> None:
        """Make it the usage of the whole answer."""
        prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(output, int):
            return
        # An answer that had ended is asked for only to hear of the prompt.
        output = self._all_tokens if self._closes else output + self._tokens
        prompt = max(0, prompt - self._tokens)
        if self._said.completion_tokens:
            prompt = self._said.prompt_tokens
        self.prompt_tokens, self.output_tokens = prompt, output
        usage["prompt_tokens"], usage["completion_tokens"] = prompt, output
        usage["total_tokens"] = prompt + output
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            details["cached_tokens"] = min(details["cached_tokens"], prompt)

    def _without_expected(self, text: str) -> str:
        """Less what was said already. What is something else is said: the text before it stays as it is."""
        expected = self._expected
        if not expected:
            return text
        same = 0
        while same < min(len(text), len(expected)) and text[same] == expected[same]:
            same += 1
        self._expected = expected[same:] if same == len(text) else ""
        return text[same:]

    def _watched(self, text: str) -> str:
        """Text that may be said now. Where it completes a stop string, the answer ends."""
        if not self._watches:
            return text
        self._held += text
        together = self._before + self._held
        for stop in self._stops:
            at = together.find(stop)
            if 0 <= at < len(self._before):
                self._closes, self._held, self._watches = "stop", "", False
                return ""
        if self._stop_may_go_on(self._held):
            return ""
        text, self._held, self._watches = self._held, "", False
        return text

    def _stop_may_go_on(self, more: str) -> bool:
        """Whether the end of the first part, and what came since, is the beginning of a stop string."""
        together = self._before + more
        return any(stop.startswith(together[at:]) for stop in self._stops for at in range(len(self._before)))

    def _release(self) -> bytes:
        """Text that was held, now that nothing follows it."""
        text, self._held = self._held, ""
        return _event_of(self._own({"text": text}, {"content": text}, None)) if text else b""

    def _finish(self, reason: str) -> bytes:
        self.finished = True
        finish = _event_of(self._own({"text": ""}, {}, reason))
        if self._wants_usage:
            return finish
        self.is_over = True
        return finish + DONE_EVENT

    def _own(self, completion: dict[str, Any], delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        """An event of our own, like those that have passed."""
        said = self._said
        choice: dict[str, Any] = {"index": 0}
        choice |= {"delta": delta} if said.is_chat else completion
        choice["finish_reason"] = reason
        return {
            "id": said.id,
            "object": "chat.completion.chunk" if said.is_chat else "text_completion",
            "created": said.created,
            "model": said.model,
            "choices": [choice],
        }


def closing_events(said: Said, request: NextRequest) -> bytes:
    """What is still to be sent of an answer that needs no other replica: its end."""
    if said.done:
        return b""
    splice = Splice(said, request)
    if said.finish_reason is not None:
        return DONE_EVENT
    return splice.begin().removeprefix(COMMENT)


def _events(text: bytes) -> list[bytes]:
    return [event for event in text.replace(b"\r\n", b"\n").split(b"\n\n") if event]


def _event_of(chunk: dict[str, Any]) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
