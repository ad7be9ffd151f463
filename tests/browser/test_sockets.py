"""The WebSocket itself: who may open it, and what a client that does not read gets. Needs no browser."""

import asyncio
import http.cookiejar
import json
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress

import pytest
import websockets
from channels.layers import get_channel_layer

from controlplane.telemetry import frames
from tests.browser.measuring import Measuring
from tests.browser.site import ADMIN, Site
from tests.conftest import RedisServer
from tests.proxy_process import until


@pytest.fixture(scope="module")
def cookie(shared_site: Site) -> str:
    """A signed-in session, got as a browser gets it."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"{shared_site.url}/login").close()
    token = next(one.value for one in jar if one.name == "csrftoken")
    form = {"username": ADMIN[0], "password": ADMIN[1], "csrfmiddlewaretoken": token}
    opener.open(f"{shared_site.url}/login", urllib.parse.urlencode(form).encode()).close()
    return f"sessionid={next(one.value for one in jar if one.name == 'sessionid')}"


def connect(site: Site, path: str, cookie: str = "", origin: str | None = "") -> "websockets.connect":
    return websockets.connect(
        f"ws://127.0.0.1:{site.port}{path}",
        origin=site.url if origin == "" else origin,
        additional_headers={"Cookie": cookie} if cookie else {},
        open_timeout=20,
        compression=None,
    )


async def close_code(site: Site, path: str, cookie: str = "") -> int:
    async with connect(site, path, cookie) as socket:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), 20)
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


@pytest.mark.parametrize("path", ["/ws/overview", "/ws/client-keys"])
async def test_without_a_session_it_closes_with_4401(site: Site, path: str) -> None:
    assert await close_code(site, path) == 4401


async def test_the_page_of_client_keys_has_a_socket_of_its_own(
    site: Site, cookie: str, measuring: Measuring
) -> None:
    """Its first message holds the last frame, the next ones come as they are sent."""
    measuring.client_keys = [frames.ClientKeyLive(id=7, name="website", rps=2.5)]
    until(lambda: measuring.redis.exists(frames.CLIENT_KEYS_KEY), "a frame is stored")
    async with connect(site, "/ws/client-keys", cookie) as socket:
        initial = json.loads(await asyncio.wait_for(socket.recv(), 20))
        assert (initial["type"], initial["history"]) == ("hello", [])
        assert 0 <= initial["age_s"] < 20
        frame = json.loads(await asyncio.wait_for(socket.recv(), 20))["frame"]
    assert frame["sequence"] >= initial["frame"]["sequence"]
    assert [(key["id"], key["rps"]) for key in frame["keys"]] == [(7, 2.5)]


async def test_a_fleet_that_is_not_there_closes_with_4404(site: Site, cookie: str) -> None:
    assert await close_code(site, "/ws/fleets/nothing", cookie) == 4404


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", None])
async def test_other_origins_are_refused_with_their_session(
    site: Site, cookie: str, origin: str | None
) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        await connect(site, "/ws/overview", cookie, origin).__aenter__()
    assert refused.value.response.status_code == 403


async def test_the_initial_message_carries_history_frame_and_sparklines(
    site: Site, cookie: str, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    name = new_fleet()
    async with connect(site, "/ws/overview", cookie) as socket:
        fleets: list[object] = []
        while not fleets:
            message = json.loads(await asyncio.wait_for(socket.recv(), 20))
            fleets = (message["frame"] or {"fleets": []})["fleets"]
    async with connect(site, "/ws/overview", cookie) as socket:
        initial = json.loads(await asyncio.wait_for(socket.recv(), 20))
    assert initial["type"] == "hello"
    assert 0 <= initial["age_s"] < 20
    assert initial["history"][-1]["at"] == initial["frame"]["at"]
    assert len(initial["sparks"][name]["rps"]) == len(initial["sparks"][name]["p99_s"]) > 0


async def test_a_client_that_does_not_read_gets_the_newest_frame_not_a_queue(site: Site, cookie: str) -> None:
    """40 MB are sent to a page that reads nothing: more than sockets hold, so most must be dropped.

    A second page, which reads, tells when the web process has seen them all.
    """
    sent, layer = 400, get_channel_layer()
    async with (
        connect(site, "/ws/overview", cookie) as idle,
        connect(site, "/ws/overview", cookie) as reading,
    ):
        await asyncio.gather(asyncio.wait_for(idle.recv(), 20), asyncio.wait_for(reading.recv(), 20))
        idle.transport.pause_reading()
        for number in range(sent):
            frame = json.dumps({"at": number, "filler": "x" * 100_000})
            await layer.group_send(frames.OVERVIEW_GROUP, {"type": "live.frame", "data": frame})
        await layer.flush()
        await numbers_until(reading, sent - 1)
        idle.transport.resume_reading()
        got = await numbers_until(idle, sent - 1)
    assert got == sorted(got)
    assert len(got) < sent / 2


async def numbers_until(socket: websockets.ClientConnection, last: int) -> list[int]:
    """The numbers of the frames that come, up to the last one."""
    got: list[int] = []
    while not got or got[-1] != last:
        got.append(json.loads(await asyncio.wait_for(socket.recv(), 30))["frame"]["at"])
    return got


async def test_while_redis_is_away_a_page_is_told_to_try_again_and_then_gets_through(
    site: Site, cookie: str, redis_server: RedisServer
) -> None:
    """Also right after Redis is back, when the web process still holds the lost connection.

    Several times, for the loss shows in more than one way: the event loop may have noticed it or not.
    """
    for _ in range(6):
        assert await first_type_after_a_while(site, cookie) == "hello"
        redis_server.stop()
        assert await close_code(site, "/ws/overview", cookie) == 1013
        redis_server.start()
    assert await first_type_after_a_while(site, cookie) == "hello"


async def first_type_after_a_while(site: Site, cookie: str) -> str:
    """Type of the first message, when there is one; until then every handshake succeeds all the same."""
    async with asyncio.timeout(20):
        while True:
            async with connect(site, "/ws/overview", cookie) as socket:
                with suppress(websockets.ConnectionClosed):
                    message: dict[str, str] = json.loads(await socket.recv())
                    return message["type"]
