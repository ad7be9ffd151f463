"""The calls that the table of faults asks: how a server answers each, and what a client makes of that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.routing.protocols.continuation.streams import Model
from tests.routing.proxy.rig import Answer

TOKENS = 60
WORDS = [f"w{number:02d} " for number in range(TOKENS)]
TEXT = "".join(WORDS)


def event(data: dict[str, Any], name: str = "") -> bytes:
    line = b"event: %b\n" % name.encode() if name else b""
    return line + b"data: " + json.dumps(data).encode() + b"\n\n"


@dataclass(frozen=True)
class Read:
    """What a client makes of an answer's body."""

    text: str
    ended: bool
    """Whether it says itself that the answer is whole."""
    reason: str | None
    error: dict[str, Any] | None
    """Of the error event, or the error response."""
    usage: tuple[int, int] | None
    """Tokens of the prompt and of the answer."""
    is_readable: bool = True
    """Whether all of it is JSON where that is due."""


class Call:
    """One call of an API. ``prompt_tokens`` tells servers apart: each counts its own."""

    path: bytes

    def request(self, stream: bool, model: str) -> bytes:
        fields = {"model": model, "stream": stream, **self._fields(stream)}
        body = json.dumps(fields).encode()
        return b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (
            self.path,
            len(body),
            body,
        )

    def events(self, request: dict[str, Any], prompt_tokens: int) -> tuple[list[bytes], list[bytes]]:
        """Of a whole answer: what comes before the first token, and the tokens and what ends it."""
        raise NotImplementedError

    def body(self, prompt_tokens: int) -> bytes:
        """Of an answer that is not streamed."""
        raise NotImplementedError

    def read(self, answer: Answer) -> Read:
        events = [one for one in answer.body.split(b"\n\n") if b"data: " in one]
        if b"text/event-stream" not in b"".join(answer.get(b"content-type")):
            return self._read_body(answer)
        datas: list[dict[str, Any]] = []
        done = False
        is_readable = True
        for one in events:
            data = one.rpartition(b"data: ")[2]
            if data == b"[DONE]":
                done = True
                continue
            try:
                datas.append(json.loads(data))
            except ValueError:
                is_readable = False
        read = self._read_events(datas, done)
        return Read(read.text, read.ended, read.reason, read.error, read.usage, is_readable)

    def _read_body(self, answer: Answer) -> Read:
        try:
            said = json.loads(answer.body)
        except ValueError:
            return Read("", False, None, None, None, is_readable=False)
        if said.get("error"):
            return Read("", False, None, said["error"], None)
        return self._read_answer(said)

    def _fields(self, stream: bool) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": "Once"}]}

    def _read_events(self, datas: list[dict[str, Any]], done: bool) -> Read:
        raise NotImplementedError

    def _read_answer(self, said: dict[str, Any]) -> Read:
        raise NotImplementedError


class Chat(Call):
    """OpenAI's, as vLLM serves it: continued by ``continue_final_message``."""

    path = b"/v1/chat/completions"

    def _fields(self, stream: bool) -> dict[str, Any]:
        options = {"stream_options": {"include_usage": True}} if stream else {}
        return super()._fields(stream) | options

    def events(self, request: dict[str, Any], prompt_tokens: int) -> tuple[list[bytes], list[bytes]]:
        stream = Model(WORDS, "vllm", True, prompt_tokens).stream(request, f"chatcmpl-{prompt_tokens}")
        role, *rest = [one + b"\n\n" for one in stream[:-2].split(b"\n\n")]
        return [role], rest

    def body(self, prompt_tokens: int) -> bytes:
        message = {"role": "assistant", "content": TEXT}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": TOKENS}
        return json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode()

    def _read_events(self, datas: list[dict[str, Any]], done: bool) -> Read:
        text, reason, error, usage = "", None, None, None
        for data in datas:
            error = data.get("error") or error
            usage = data.get("usage") or usage
            for choice in data.get("choices", ()):
                text += choice["delta"].get("content") or ""
                reason = choice.get("finish_reason") or reason
        told = None if usage is None else (usage["prompt_tokens"], usage["completion_tokens"])
        return Read(text, done or reason is not None, reason, error, told)

    def _read_answer(self, said: dict[str, Any]) -> Read:
        choice, usage = said["choices"][0], said["usage"]
        told = (usage["prompt_tokens"], usage["completion_tokens"])
        return Read(choice["message"]["content"], True, choice["finish_reason"], None, told)


class Messages(Call):
    """Anthropic's."""

    path = b"/v1/messages"

    def events(self, request: dict[str, Any], prompt_tokens: int) -> tuple[list[bytes], list[bytes]]:
        usage = {"input_tokens": prompt_tokens, "output_tokens": 1}
        begin = [
            _typed("message_start", message={"id": "m", "role": "assistant", "content": [], "usage": usage}),
            _typed("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            _typed("ping"),
        ]
        tokens = [
            _typed("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            for word in WORDS
        ]
        end = [
            _typed("content_block_stop", index=0),
            _typed("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": TOKENS}),
            _typed("message_stop"),
        ]
        return begin, [*tokens, *end]

    def body(self, prompt_tokens: int) -> bytes:
        usage = {"input_tokens": prompt_tokens, "output_tokens": TOKENS}
        content = [{"type": "text", "text": TEXT}]
        return json.dumps({"content": content, "stop_reason": "end_turn", "usage": usage}).encode()

    def _read_events(self, datas: list[dict[str, Any]], done: bool) -> Read:
        text, reason, error, prompt, output, ended = "", None, None, 0, 0, False
        for data in datas:
            match data.get("type"):
                case "error":
                    error = data["error"]
                case "message_start":
                    prompt = data["message"]["usage"]["input_tokens"]
                case "content_block_delta":
                    text += data["delta"]["text"]
                case "message_delta":
                    reason, output = data["delta"]["stop_reason"], data["usage"]["output_tokens"]
                case "message_stop":
                    ended = True
        return Read(text, ended, reason, error, (prompt, output) if output else None)

    def _read_answer(self, said: dict[str, Any]) -> Read:
        told = (said["usage"]["input_tokens"], said["usage"]["output_tokens"])
        return Read(said["content"][0]["text"], True, said["stop_reason"], None, told)


class Responses(Call):
    """OpenAI's newer one, which stores its answers: sent twice only where the policy says so."""

    path = b"/v1/responses"

    def _fields(self, stream: bool) -> dict[str, Any]:
        return {"input": "Once"}

    def events(self, request: dict[str, Any], prompt_tokens: int) -> tuple[list[bytes], list[bytes]]:
        begin = [
            _typed("response.created", response={"id": "r", "output": []}, sequence_number=0),
            _typed("response.in_progress", response={"id": "r", "output": []}, sequence_number=1),
        ]
        tokens = [
            _typed("response.output_text.delta", delta=word, sequence_number=2 + number)
            for number, word in enumerate(WORDS)
        ]
        whole = json.loads(self.body(prompt_tokens))
        return begin, [*tokens, _typed("response.completed", response=whole, sequence_number=2 + TOKENS)]

    def body(self, prompt_tokens: int) -> bytes:
        output = [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}]
        usage = {"input_tokens": prompt_tokens, "output_tokens": TOKENS}
        return json.dumps({"id": "r", "status": "completed", "output": output, "usage": usage}).encode()

    def _read_events(self, datas: list[dict[str, Any]], done: bool) -> Read:
        text, error, whole = "", None, None
        for data in datas:
            match data.get("type"):
                case "error":
                    error = data["error"]
                case "response.output_text.delta":
                    text += data["delta"]
                case "response.completed":
                    whole = self._read_answer(data["response"])
        if whole is None:
            return Read(text, False, None, error, None)
        return Read(text, True, whole.reason, error, whole.usage)

    def _read_answer(self, said: dict[str, Any]) -> Read:
        told = (said["usage"]["input_tokens"], said["usage"]["output_tokens"])
        return Read(said["output"][0]["content"][0]["text"], True, said["status"], None, told)


def _typed(kind: str, **members: Any) -> bytes:
    return event({"type": kind, **members}, kind)


CHAT, MESSAGES, RESPONSES = Chat(), Messages(), Responses()
