"""A scripted OpenAI server for the tests of traces, and a proxy in front of it."""

import json
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.proxy_process import LIMIT_S, Proxy, Replica, fleet_file

CHAT = "/v1/chat/completions"
MODEL = "org/chat-8b"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
SECRET = "the prompt that nobody may see"
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


class ModelServer(Replica):
    """Answers as ``status`` says; a stream if ``streams``, a whole answer otherwise."""

    def __init__(self, name: str) -> None:
        self.status = 200
        self.streams = False
        self.pause_s = 0.0
        """Before the answer, and before the second event of a stream."""
        self.held = threading.Event()
        """Set: answers come."""
        self.held.set()
        self.heads: list[dict[str, str]] = []
        super().__init__(name)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.heads.append({key.lower(): value for key, value in handler.headers.items()})
        self.served += 1
        time.sleep(self.pause_s)
        self.held.wait(LIMIT_S)
        if self.status == 200 and self.streams:
            self._events(handler)
            return
        said = {"role": "assistant", "content": SECRET}
        answer = {"choices": [{"message": said}], "model": MODEL, "usage": USAGE}
        body = json.dumps(answer if self.status == 200 else {"error": {"message": SECRET}}).encode()
        handler.send_response(self.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _events(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for number in range(3):
            event = {"choices": [{"delta": {"content": SECRET}}], "model": MODEL}
            _chunk(handler, f"data: {json.dumps(event)}\n\n".encode())
            self.streaming.set()
            if not number:
                time.sleep(self.pause_s)
                self.release.wait(LIMIT_S)
        _chunk(handler, f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\ndata: [DONE]\n\n".encode())
        handler.wfile.write(b"0\r\n\r\n")


def _chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
    handler.wfile.flush()


def chat_fleet(path: Path, replicas: Sequence[Replica], **fleet: Any) -> Path:
    values = {"name": "chat", "protocol": "openai", "served_model": MODEL, "default": False, **fleet}
    return fleet_file(path, replicas, **values)


def ask(proxy: Proxy, path: str = CHAT, stream: bool = False, **headers: str) -> tuple[int, bytes]:
    """One request, and its whole answer."""
    connection = proxy.client()
    body = {"model": "chat", "stream": stream, "messages": [{"role": "user", "content": SECRET}]}
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def parent(flags: str = "01", trace: str = TRACE) -> str:
    """A client's ``traceparent``."""
    return f"00-{trace}-{CALLER}-{flags}"
