"""Streams as model servers send them, of known answers, and what they make of a continued request."""

import json
from typing import Any

SHAPES = ("vllm", "llama.cpp")


def event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


class Model:
    """Says the same text to everyone, a token (of these) at a time, from wherever it was."""

    def __init__(
        self, tokens: list[str], shape: str, chat: bool, prompt_tokens: int = 7, echoes: bool = False
    ) -> None:
        """``echoes``: its chats repeat what they continue."""
        self.echoes = echoes and chat
        self.tokens = tokens
        self.text = "".join(tokens)
        self.shape = shape
        self.chat = chat
        self.prompt_tokens = prompt_tokens

    def rest(self, characters: int) -> list[str]:
        """The tokens after so many characters; of one that is begun, what is left."""
        rest, at = [], 0
        for token in self.tokens:
            rest += [token[max(0, characters - at) :]] if at + len(token) > characters else []
            at += len(token)
        return rest

    def said(self, request: dict[str, Any]) -> str:
        """What of the answer the request repeats."""
        if not self.chat:
            return str(request["prompt"]).removeprefix("Once ")
        last = request["messages"][-1]
        if last["role"] != "assistant":
            return ""
        if self.shape == "vllm":
            assert request["continue_final_message"] is True
            assert request["add_generation_prompt"] is False
        return str(last["content"])

    def stream(self, request: dict[str, Any], name: str) -> bytes:
        """The whole answer; ``name``: the server's own id for it."""
        said = self.said(request)
        assert self.text.startswith(said)
        told = len(self.tokens) - len(self.rest(len(said)))
        tokens = self.rest(len(said))
        made = len(tokens)
        most = request.get("max_tokens")
        reason = "stop"
        if most is not None and most <= len(tokens):
            tokens, reason = tokens[:most], "length"
            made = most
        events = self._begin(name)
        if said and self.echoes:
            events.append(self._event(name, said + tokens[0] if tokens else said, None))
            del tokens[:1]
        events += [self._event(name, token, None) for token in tokens]
        events.append(self._event(name, "", reason))
        if request.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": self.prompt_tokens + told, "completion_tokens": made}
            usage["total_tokens"] = sum(usage.values())
            events.append(event({**self._envelope(name), "choices": [], "usage": usage}))
        return b"".join(events) + b"data: [DONE]\n\n"

    def _envelope(self, name: str) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": name, "object": kind, "created": len(name), "model": "m"}

    def _begin(self, name: str) -> list[bytes]:
        if not self.chat:
            return []
        content = "" if self.shape == "vllm" else None
        delta = {"role": "assistant", "content": content}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return [event({**self._envelope(name), "choices": [choice]})]

    def _event(self, name: str, token: str, reason: str | None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason}
        if not self.chat:
            choice["text"] = token
        elif reason is not None and self.shape == "llama.cpp":
            choice["delta"] = {}
        else:
            choice["delta"] = {"content": token}
        return event({**self._envelope(name), "choices": [choice]})


def request_body(chat: bool, **fields: Any) -> bytes:
    own = {"messages": [{"role": "user", "content": "Once"}]} if chat else {"prompt": "Once "}
    return json.dumps({"model": "m", "stream": True, "seed": 3, **own, **fields}).encode()


class Read:
    """What a client makes of a stream."""

    def __init__(self, stream: bytes) -> None:
        assert stream.endswith(b"\n\n")
        events = stream[:-2].split(b"\n\n")
        self.comments = [one for one in events if one.startswith(b":")]
        data = [one.removeprefix(b"data: ") for one in events if one.startswith(b"data: ")]
        assert len(data) + len(self.comments) == len(events)
        assert data[-1] == b"[DONE]"
        assert data.count(b"[DONE]") == 1
        chunks = [json.loads(one) for one in data[:-1]]
        self.envelopes = {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        deltas = [choice["delta"] for choice in choices if "delta" in choice]
        self.roles = sum("role" in delta for delta in deltas)
        self.text = "".join(choice.get("text") or "" for choice in choices)
        self.text += "".join(delta.get("content") or "" for delta in deltas)
        self.reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
        self.usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
