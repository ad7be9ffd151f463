"""Request limits before Django: size and time of bodies, and how many requests run."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from controlplane.api.parsing import LARGEST_BODY
from controlplane.asgi_types import Receive, Scope, Send
from controlplane.web.request_limits import RequestLimits, WebLimits
from tests.controlplane.web.served import served

pytestmark = pytest.mark.any_database
SMALL = WebLimits(body_bytes=1000, api_body_bytes=5000, stall_s=20, body_s=20, bodies=2, running=2, queue=0)


class Application:
    """Answers with the size of the body; at ``/held`` once it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        self.running += 1
        if scope["path"] == "/held":
            await self.go.wait()
        text = f"{len(body)} bytes"
        headers = [(b"content-length", str(len(text)).encode()), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})


async def by_header(scope: Scope) -> bool:
    return any(name == b"authorization" for name, _ in scope["headers"])


def limited(application: Any, limits: WebLimits = SMALL) -> RequestLimits:
    return RequestLimits(application, by_header, limits)


def post(path: str, length: int | None, body: bytes = b"", *fields: str) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", framing, *fields])
    return head.encode() + b"\r\n\r\n" + body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_body_within_the_limit_arrives_whole() -> None:
    async with served(limited(Application())) as address:
        assert (await address.ask(post("/login", 1000, b"x" * 1000))).endswith("1000 bytes")
        chunks = b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
        assert (await address.ask(post("/login", None, chunks))).endswith("7 bytes")


async def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent() -> None:
    application = Application()
    async with served(limited(application)) as address:
        answer = await address.ask(post("/login", 1 << 30))
    assert status(answer) == 413
    assert "connection: close" in answer
    assert "at most 1000 bytes" in answer
    assert application.running == 0


async def test_a_body_of_unknown_length_is_counted_as_it_arrives() -> None:
    chunk = b"100\r\n" + b"x" * 256 + b"\r\n"
    async with served(limited(Application())) as address:
        assert status(await address.ask(post("/login", None, chunk * 4))) == 413


async def test_the_api_takes_more_from_those_that_it_knows_and_says_so_as_a_problem() -> None:
    async with served(limited(Application())) as address:
        stranger = await address.ask(post("/api/v1/fleets", 4000))
        known = await address.ask(post("/api/v1/fleets", 4000, b"x" * 4000, "Authorization: Token t"))
        more = await address.ask(post("/api/v1/fleets", 5001, b"", "Authorization: Token t"))
    assert known.endswith("4000 bytes")
    for answer, words in ((stranger, "Without a valid API token"), (more, "at most 5000 bytes")):
        head, _, body = answer.partition("\r\n\r\n")
        assert "content-type: application/problem+json" in head
        assert json.loads(body)["status"] == status(answer) == 413
        assert words in json.loads(body)["detail"]


@pytest.mark.parametrize("limits", [SMALL._replace(stall_s=0.05), SMALL._replace(body_s=0.05)])
async def test_a_body_that_does_not_come_is_given_up(limits: WebLimits) -> None:
    async with served(limited(Application(), limits)) as address:
        answer = await address.ask(post("/login", 100, b"half"))
    assert status(answer) == 408


async def test_slow_senders_hold_no_place_of_others_and_the_oldest_gives_way() -> None:
    limits = limited(Application())
    async with served(limits) as address, AsyncExitStack() as stack:
        slow = []
        for number in range(2):
            slow.append(await stack.enter_async_context(address.client(post("/login", 100, b"half"))))
            await until(lambda wanted=number + 1: len(limits._arriving) == wanted)  # type: ignore[misc]
        assert status(await address.ask(get("/"))) == 200
        assert (await address.ask(post("/login", 4, b"full"))).endswith("4 bytes")
        assert status(await slow[0].answer()) == 408
        slow[1].writer.write(b"x" * 96)
        assert (await slow[1].answer()).endswith("100 bytes")


async def test_more_requests_than_places_are_told_to_come_later_but_health_checks_answer() -> None:
    application = Application()
    async with served(limited(application)) as address, AsyncExitStack() as stack:
        held = [await stack.enter_async_context(address.client(get("/held"))) for _ in range(2)]
        await until(lambda: application.running == 2)
        answer = await address.ask(get("/"))
        assert status(answer) == 503
        assert "retry-after: 2" in answer
        assert status(await address.ask(get("/livez"))) == 200
        application.go.set()
        assert [status(await client.answer()) for client in held] == [200, 200]
        assert status(await address.ask(get("/"))) == 200


async def test_a_request_waits_for_a_place_for_a_while() -> None:
    application = Application()
    limits = limited(application, SMALL._replace(running=1, queue=1))
    async with served(limits) as address, address.client(get("/held")) as held:
        await until(lambda: application.running == 1)
        async with address.client(get("/")) as waiting:
            await until(lambda: limits._queued == 1)
            application.go.set()
            assert status(await waiting.answer()) == status(await held.answer()) == 200


async def test_a_client_that_leaves_amid_its_body_leaves_nothing() -> None:
    limits = limited(Application())
    async with served(limits) as address:
        async with address.client(post("/login", 100, b"half")):
            await until(lambda: len(limits._arriving) == 1)
        await until(lambda: not limits._arriving)


def test_what_is_let_in_stays_in_memory(settings: Any) -> None:
    assert settings.FILE_UPLOAD_MAX_MEMORY_SIZE == WebLimits().api_body_bytes == LARGEST_BODY
