"""A real llama.cpp server around random weights: loading seen, chat, completions, streaming."""

import hashlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.tiny_llm.model_file import write_model
from examples.tiny_llm.replicas import REPLICAS, Shape
from examples.tiny_llm.vocabulary import BYTE, vocabulary

TINY = Shape(width=32, layers=1, vocabulary=600)


def test_a_vocabulary_has_the_size_asked_for_and_no_token_twice() -> None:
    words = vocabulary(100_000)
    assert len(words.tokens) == len(words.scores) == len(words.types) == 100_000
    assert len(set(words.tokens)) == 100_000
    assert words.types.count(BYTE) == 256
    assert words.tokens[words.unspoken] == "▁".encode()


@pytest.mark.parametrize("size", [0, 511, 200_000_000])
def test_a_size_that_cannot_be_is_refused(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.tiny_llm.vocabulary.words", lambda: iter(["a", "b"]))
    with pytest.raises(ValueError, match=f"a vocabulary of {size} tokens cannot be made"):
        vocabulary(size)


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        write_model(tmp_path / name, "tiny-llm", TINY)
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).digest())
    write_model(tmp_path / "other", "tiny-llm", TINY, seed=2)
    digests.add(hashlib.sha256((tmp_path / "other").read_bytes()).digest())
    assert len(digests) == 2


def test_the_replicas_are_of_unequal_speed() -> None:
    assert len(REPLICAS) == 4
    assert len({(r.threads, r.slots, r.context, r.shape) for r in REPLICAS.values()}) == 4


class Server:
    """One running replica, and every answer of its health page while it came up."""

    def __init__(self, replica: str, models: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        command = [sys.executable, "-m", "examples.tiny_llm.server", "--replica", replica]
        command += ["--port", str(self.port), "--models", str(models)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.seen: list[str] = []

    def wait(self, limit_s: float = 60.0) -> None:
        until = time.monotonic() + limit_s
        while (answer := self.health()) != '200 {"status":"ok"}':
            if answer not in self.seen:
                self.seen.append(answer)
            assert time.monotonic() < until, self.seen
            assert self.process.poll() is None
            time.sleep(0.005)

    def health(self) -> str:
        try:
            status, body = self.request("GET", "/health")
        except OSError as error:
            return type(error).__name__
        return f"{status} {body.decode()}"

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, content = self.request("POST", path, body)
        assert status == 200, content
        answer: dict[str, Any] = json.loads(content)
        return answer


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("quick", tmp_path_factory.mktemp("models"))
    server.wait()
    yield server
    server.process.terminate()
    server.process.wait()


def test_chat_counts_the_tokens_it_made(quick: Server) -> None:
    body = {"messages": [{"role": "user", "content": "bala kiru"}], "max_tokens": 12}
    answer = quick.ask("/v1/chat/completions", body)
    assert answer["model"] == "tiny-llm"
    assert answer["usage"]["completion_tokens"] == 12
    assert len(answer["choices"][0]["message"]["content"]) > 12


def test_completions_too(quick: Server) -> None:
    answer = quick.ask("/v1/completions", {"prompt": "bala kiru", "max_tokens": 5})
    assert answer["usage"]["completion_tokens"] == 5


def test_a_stream_comes_in_pieces_and_ends(quick: Server) -> None:
    body = {"messages": [{"role": "user", "content": "bala"}], "max_tokens": 8, "stream": True}
    status, content = quick.request("POST", "/v1/chat/completions", body)
    events = [line for line in content.decode().splitlines() if line.startswith("data: ")]
    assert status == 200
    assert len(events) >= 8
    assert events[-1] == "data: [DONE]"


@pytest.mark.long
def test_while_a_large_model_loads_the_server_says_so(tmp_path: Path) -> None:
    server = Server("wide", tmp_path)
    try:
        server.wait()
        assert any(answer.startswith("503 ") and "Loading model" in answer for answer in server.seen)
    finally:
        server.process.terminate()
        server.process.wait()
