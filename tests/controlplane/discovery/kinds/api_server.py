"""A Kubernetes API server on 127.0.0.1, as far as a service's EndpointSlices go, with faults on request."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SLICES = "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices"


def endpoint(pod: str, address: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    return {
        "addresses": [address],
        "targetRef": {"kind": "Pod", "name": pod},
        "conditions": {"ready": True},
        **more,
    }


def endpoint_slice(name: str, *endpoints: dict[str, Any], **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": "llm", **more.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": list(endpoints) or None,
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        **more,
    }


@dataclass
class ApiServer:
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, str]] = field(default_factory=dict)
    page: int = 500
    """Most items of a page, whatever the client asks for."""
    faults: deque[web.Response | str] = field(default_factory=deque)
    """What the next lists get instead of an answer: a response, ``break``, half of the answer, or ``drip``, a
    byte each moment."""
    takes: str = ""
    """The only token that is taken; empty: any."""
    watch_fault: str = ""
    """``410``, ``dies`` or ``silent`` (events are lost)."""
    url: str = ""
    tell: Callable[..., Any] = field(default=lambda call, *arguments: call(*arguments))
    """Calls in the server's event loop; another thread that changes something sets it."""
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    watched: asyncio.Event = field(default_factory=asyncio.Event)
    _version: int = 1
    _queues: "list[asyncio.Queue[dict[str, Any]]]" = field(default_factory=list)

    def put(self, one: dict[str, Any]) -> None:
        """A slice comes or changes, and watches are told."""
        self.slices[one["metadata"]["name"]] = one
        self._tell("MODIFIED", one)

    def delete(self, name: str) -> None:
        self._tell("DELETED", self.slices.pop(name))

    def _tell(self, kind: str, one: dict[str, Any]) -> None:
        self._version += 1
        if self.watch_fault != "silent":
            for queue in self._queues:
                self.tell(queue.put_nowait, {"type": kind, "object": one})

    async def list_slices(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        self.tokens.add(request.headers.get("Authorization", ""))
        assert request.query["labelSelector"] == "kubernetes.io/service-name=llm"
        if "watch" in request.query:
            return await self._watch(request)
        if self.takes and request.headers.get("Authorization") != f"Bearer {self.takes}":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        fault = self.faults.popleft() if self.faults else ""
        if fault == "drip":
            slow = web.StreamResponse(headers={"Content-Length": "100000"})
            await slow.prepare(request)
            while request.transport is not None and not request.transport.is_closing():
                await slow.write(b"x")
                await asyncio.sleep(0.02)
            return slow
        if isinstance(fault, web.Response):
            return fault
        answer = self._page(request, [self.slices[name] for name in sorted(self.slices)])
        if fault == "break":
            body = json.dumps(answer).encode()
            broken = web.StreamResponse(headers={"Content-Length": str(len(body))})
            await broken.prepare(request)
            await broken.write(body[: len(body) // 2])
            assert request.transport is not None
            request.transport.close()
            return broken
        if fault == "truncated":
            answer["metadata"] |= {"continue": "", "remainingItemCount": 7}
        return web.json_response(answer)

    def _page(self, request: web.Request, items: list[dict[str, Any]]) -> dict[str, Any]:
        first = int(request.query.get("continue") or 0)
        limit = min(int(request.query["limit"]), self.page) if "limit" in request.query else len(items)
        last = first + limit
        rest = len(items) - last
        more = {"continue": str(last), "remainingItemCount": rest} if rest > 0 else {}
        return {"metadata": {"resourceVersion": str(self._version), **more}, "items": items[first:last]}

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert request.query["resourceVersion"]
        self.watched.set()
        response = web.StreamResponse()
        await response.prepare(request)
        if self.watch_fault == "410":
            await response.write(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
            return response
        if self.watch_fault == "dies":
            await response.write(b'{"type":"MODI')
            assert request.transport is not None
            request.transport.close()
            return response
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._queues.append(queue)
        await response.write(b'{"type":"BOOKMARK","object":{}}\n')
        while True:
            await response.write(json.dumps(await queue.get()).encode() + b"\n")

    async def get_service(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != "llm":
            return web.json_response({}, status=404)
        return web.json_response({"spec": {"selector": {"app": "llm"}}})

    async def list_pods(self, request: web.Request) -> web.Response:
        assert request.query["labelSelector"] == "app=llm"
        assert "PartialObjectMetadataList" in request.headers["Accept"]
        items = [{"metadata": {"name": name, "labels": labels}} for name, labels in self.pods.items()]
        return web.json_response(self._page(request, items))


@asynccontextmanager
async def serving(server: ApiServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    app = web.Application()
    app.router.add_get(SLICES, server.list_slices)
    app.router.add_get("/api/v1/namespaces/models/services/{name}", server.get_service)
    app.router.add_get("/api/v1/namespaces/models/pods", server.list_pods)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()
