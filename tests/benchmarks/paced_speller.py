"""A server that spells at a pace, like one on an accelerator of its own: ``PORT [FIRST_S [BETWEEN_S]]``.

It computes nothing: after each character of the alphabet comes the next one, a token each. The first one of
an answer comes after ``FIRST_S`` (a prompt takes its time), each further one ``BETWEEN_S`` later, however
many answers there are. Chats continue as llama.cpp's do: an assistant's message at the end is gone on with.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,?!:;'0123456789"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MESSAGE_TOKENS = 5
"""Of a message beside its text."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def prompt_of(body: dict[str, Any]) -> tuple[str, int]:
    """The text that is gone on with, and its tokens."""
    if "prompt" in body:
        return body["prompt"], len(body["prompt"])
    messages = body["messages"]
    tokens = sum(MESSAGE_TOKENS + len(one["content"]) for one in messages)
    if messages[-1]["role"] == "assistant":
        return messages[-1]["content"], tokens
    return ":", tokens + MESSAGE_TOKENS


class Answer:
    """To one request."""

    def __init__(self, is_chat: bool, body: dict[str, Any]) -> None:
        self._is_chat = is_chat
        self._last, self._prompt_tokens = prompt_of(body)
        self._count = body.get("max_tokens", 16)
        self._kind = "chat.completion" if is_chat else "text_completion"

    def text(self) -> str:
        at = LETTERS.index(self._last[-1]) + 1
        return "".join(LETTERS[(at + number) % len(LETTERS)] for number in range(self._count))

    def whole(self) -> bytes:
        text = self.text()
        said = {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
        body = json.dumps(self._envelope([{"index": 0, "finish_reason": "length", **said}], True)).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )

    def events(self) -> list[bytes]:
        """A token each; the last one ends the answer."""
        texts = list(self.text())
        found = [self._event(self._choice(text)) for text in texts]
        if self._is_chat:
            found[0] = self._event({"delta": {"role": "assistant", "content": ""}}) + found[0]
        end = self._choice("") | {"finish_reason": "length"}
        usage = chunk(b"data: " + json.dumps(self._envelope([], True)).encode() + b"\n\n")
        found[-1] += self._event(end) + usage + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        return found

    def _choice(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}} if self._is_chat else {"text": text}

    def _event(self, said: dict[str, Any]) -> bytes:
        choice = {"index": 0, "finish_reason": None, **said}
        return chunk(b"data: " + json.dumps(self._envelope([choice], False)).encode() + b"\n\n")

    def _envelope(self, choices: list[dict[str, Any]], with_usage: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": "c",
            "object": self._kind,
            "created": 1,
            "model": "m",
            "choices": choices,
        }
        if with_usage:
            total = self._prompt_tokens + self._count
            found["usage"] = {
                "prompt_tokens": self._prompt_tokens,
                "completion_tokens": self._count,
                "total_tokens": total,
            }
        return found


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first_s: float, between_s: float
) -> None:
    with suppress(OSError, EOFError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
            )
            data = await reader.readexactly(length)
            if not data:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                continue
            body = json.loads(data)
            answer = Answer(b"/chat/" in head.partition(b"\r\n")[0], body)
            if not body.get("stream"):
                writer.write(answer.whole())
                continue
            await asyncio.sleep(first_s)
            writer.write(HEAD)
            for event in answer.events():
                if writer.is_closing():
                    break
                writer.write(event)
                await asyncio.sleep(between_s)
    writer.close()


async def main() -> None:
    numbers = [float(word) for word in sys.argv[2:]]
    first_s, between_s = numbers + [0.05, 0.03][len(numbers) :]
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, first_s, between_s), "127.0.0.1", int(sys.argv[1])
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
