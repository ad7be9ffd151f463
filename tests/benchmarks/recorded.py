"""Recorded answers: what model servers send for a chat completion, byte for byte but for what varies.

Recorded from a raw socket, one segment after another:

- ``llama.cpp``: its server as of xllamacpp 2026.10, around random weights
  (:mod:`tests.benchmarks.llama.server`). Head and first event of a stream come in one segment, the last two
  bytes in one of their own. A connection is closed with its hundredth answer.
- ``vllm``: the OpenAI server of vLLM 0.32, on a CPU, around a Llama of two layers with random weights, seen
  from outside and by its system calls. Head and body of an answer are two writes, so they come in two
  segments if the reader is quick; likewise the head of a stream, its role event and its first token.

Ids, times, texts and lengths differ from answer to answer, Date each second, as they do in reality: a
constant answer can be recognised at less cost. ``plain`` is such a constant one.
"""

from email.utils import formatdate
from random import Random

KINDS = ("vllm", "llama.cpp", "plain")
MODEL = "m"
_WORDS = (
    *("a", "an", "in", "of", "the", "and", "with", "that", "from", "answer", "model", "where", "number"),
    *("because", "question", "therefore", "ing", "s", ",", "."),
)
PLAIN = b'{"id":"x","object":"chat.completion","choices":[{"message":{"role":"assistant","content":"ok"}}]}'
PLAIN_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
PLAIN_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
PLAIN_EVENT = (
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
DONE = b"data: [DONE]\n\n"
HEADS = {
    "vllm": b"HTTP/1.1 200 OK\r\ndate: DATE\r\nserver: uvicorn\r\ncontent-length: %d\r\n"
    b"content-type: application/json\r\nvary: Origin\r\n\r\n",
    "llama.cpp": b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nAccess-Control-Allow-Origin: \r\n"
    b"Content-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Keep-Alive: timeout=5, max=100\r\n\r\n",
    "plain": PLAIN_HEAD,
}
KEEPS, CLOSES = b"Keep-Alive: timeout=5, max=100\r\n", b"Connection: close\r\n"
"""llama.cpp closes a connection with the hundredth answer on it, and says so instead."""
KEPT_FOR = {"llama.cpp": 100}
STREAM_HEADS = {
    "vllm": b"HTTP/1.1 200 OK\r\ndate: DATE\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\nvary: Origin\r\ntransfer-encoding: chunked\r\n\r\n",
    "llama.cpp": b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nAccess-Control-Allow-Origin: \r\n"
    b"X-Accel-Buffering: no\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Keep-Alive: timeout=5, max=100\r\n\r\n",
    "plain": PLAIN_STREAM_HEAD,
}
WHOLE = {
    "vllm": b'{"id":"chatcmpl-%(hex)b","object":"chat.completion","created":%(now)d,"model":"m",'
    b'"choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%(text)b","refusal":null,"annotations":null,"audio":null,'
    b'"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,'
    b'"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-c0e63504",'
    b'"usage":{"prompt_tokens":%(prompt)d,"total_tokens":%(total)d,"completion_tokens":%(count)d,'
    b'"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,'
    b'"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,'
    b'"metrics":null}',
    "llama.cpp": b'{"choices":[{"finish_reason":"length","index":0,'
    b'"message":{"role":"assistant","content":"%(text)b"}}],'
    b'"created":%(now)d,"model":"m","system_fingerprint":"b0-unknown","object":"chat.completion",'
    b'"usage":{"completion_tokens":%(count)d,"prompt_tokens":%(prompt)d,"total_tokens":%(total)d,'
    b'"prompt_tokens_details":{"cached_tokens":%(cached)d}},"id":"chatcmpl-%(id)b","timings":{"cache_n":%(cached)d,'
    b'"prompt_n":1,"prompt_ms":7.91,"prompt_per_token_ms":7.91,"prompt_per_second":126.42225031605562,'
    b'"predicted_n":%(count)d,"predicted_ms":%(ms)b,"predicted_per_token_ms":%(each)b,'
    b'"predicted_per_second":%(rate)b}}',
}
_VLLM_EVENT = (
    b'data: {"id":"chatcmpl-%(hex)b","object":"chat.completion.chunk","created":%(now)d,"model":"m",'
    b'"choices":['
)
_LLAMA_EVENT = (
    b'"created":%(now)d,"id":"chatcmpl-%(id)b","model":"m","system_fingerprint":"b0-unknown",'
    b'"object":"chat.completion.chunk"'
)
STREAM = {
    "vllm": (
        _VLLM_EVENT
        + b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
        b'"prompt_token_ids":null,"prompt_text":null}\n\n',
        _VLLM_EVENT + b'{"index":0,"delta":{"content":"TOKEN"},"logprobs":null,"finish_reason":null,'
        b'"token_ids":null}]}\n\n',
        _VLLM_EVENT + b'{"index":0,"delta":{"content":"TOKEN"},"logprobs":null,"finish_reason":"length",'
        b'"stop_reason":null,"token_ids":null}]}\n\n',
        _VLLM_EVENT
        + b'],"usage":{"prompt_tokens":%(prompt)d,"total_tokens":%(total)d,"completion_tokens":%(count)d},'
        b'"system_fingerprint":"vllm-0.32.0-c0e63504"}\n\n',
    ),
    "llama.cpp": (
        b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],'
        + _LLAMA_EVENT
        + b"}\n\n",
        b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"TOKEN"}}],'
        + _LLAMA_EVENT
        + b"}\n\n",
        b'data: {"choices":[{"finish_reason":"length","index":0,"delta":{}}],' + _LLAMA_EVENT + b"}\n\n",
        b'data: {"choices":[],'
        + _LLAMA_EVENT
        + b',"usage":{"completion_tokens":%(count)d,"prompt_tokens":%(prompt)d,'
        b'"total_tokens":%(total)d,"prompt_tokens_details":{"cached_tokens":%(cached)d}},"timings":{"cache_n":%(cached)d,'
        b'"prompt_n":1,"prompt_ms":3.861,"prompt_per_token_ms":3.861,"prompt_per_second":259.000259000259,'
        b'"predicted_n":%(count)d,"predicted_ms":%(ms)b,"predicted_per_token_ms":%(each)b,'
        b'"predicted_per_second":%(rate)b}}\n\n',
    ),
}
"""First event, one with a token, the last before the usage, the usage."""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def request_body(size: int, stream: bool = False) -> bytes:
    """A chat request of so many bytes."""
    options = ',"stream":true,"stream_options":{"include_usage":true}' if stream else ""
    before = f'{{"model":"{MODEL}","messages":[{{"role":"user","content":"'
    after = f'"}}],"max_tokens":64{options}}}'
    words = (" ".join(_WORDS) + " ") * (size // 64 + 1)
    return f"{before}{words[: size - len(before) - len(after)]}{after}".encode()


class Answers:
    """Of one server: no two alike, and the same ones again from the same seed."""

    def __init__(self, kind: str, seed: int = 1) -> None:
        assert kind in KINDS
        self.kind = kind
        self._rng = Random(seed)

    def whole(self, now: float) -> tuple[bytes, bytes]:
        """Head and body of an answer that is sent at ``now``, in seconds of Unix time."""
        if self.kind == "plain":
            return PLAIN_HEAD % len(PLAIN), PLAIN
        body = WHOLE[self.kind] % self._values(now, self._rng.randrange(8, 65))
        return _dated(HEADS[self.kind], now) % len(body), body

    def stream(self, now: float, tokens: int) -> list[list[bytes]]:
        """What is written of a stream with each of so many tokens, at least three: the segments, one after
        another."""
        if self.kind == "plain":
            chunk = _chunk(PLAIN_EVENT)
            return [
                [PLAIN_STREAM_HEAD + chunk],
                *[[chunk]] * (tokens - 2),
                [chunk, _chunk(DONE) + b"0\r\n\r\n"],
            ]
        values = self._values(now, tokens)
        first, event, last, usage = (part % values for part in STREAM[self.kind])
        words = [b" " + word.encode() for word in self._rng.choices(_WORDS, k=tokens)]
        events = [event.replace(b"TOKEN", word) for word in words]
        head = _dated(STREAM_HEADS[self.kind], now)
        if self.kind == "vllm":
            begin = [head, _chunk(first), _chunk(events[0])]
            ending = _chunk(last.replace(b"TOKEN", words[-1])) + _chunk(usage) + _chunk(DONE) + b"0\r\n\r\n"
            return [begin, *([_chunk(event)] for event in events[1:-1]), [ending]]
        begin = [head + _chunk(first + events[0])]
        end = [_chunk(events[-1]), _chunk(last + usage), _chunk(DONE) + b"0\r\n", b"\r\n"]
        return [begin, *([_chunk(event)] for event in events[1:-1]), end]

    def _values(self, now: float, count: int) -> dict[bytes, object]:
        rng = self._rng
        prompt, seconds = rng.randrange(90, 130), rng.uniform(0.02, 0.9)
        return {
            b"id": "".join(rng.choices(_LETTERS, k=32)).encode(),
            b"hex": b"%016x" % rng.getrandbits(64),
            b"now": int(now),
            b"text": (" " + " ".join(rng.choices(_WORDS, k=count))).encode(),
            b"prompt": prompt,
            b"count": count,
            b"total": prompt + count,
            b"cached": rng.randrange(prompt),
            b"ms": b"%.3f" % (seconds * 1000),
            b"each": repr(seconds * 1000 / count).encode(),
            b"rate": repr(count / seconds).encode(),
        }


def _dated(head: bytes, now: float) -> bytes:
    return head.replace(b"DATE", formatdate(now, usegmt=True).encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
