"""How long a WebSocket stays open: no longer than the session, the account, and its longest age."""

import asyncio
import json
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec
import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.http import HttpRequest

from controlplane.access.grants import NOTHING, Access
from controlplane.models import Fleet, ForcedPasswordChange, RoleGrant
from controlplane.telemetry.frames import (
    OVERVIEW_GROUP,
    OVERVIEW_KEY,
    AffinityLive,
    FleetSummary,
    OverviewFrame,
    Point,
    QueueLive,
    history_key,
)
from dashboard import consumers, session_watch, ws_auth
from dashboard.consumers import ClientKeysConsumer, LiveConsumer

HEADERS = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://127.0.0.1:8000")]
PATIENCE_S = 20

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("transactional_db", "redis_server")]


def sign_in() -> Any:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore()
    user = User.objects.create_user("anna")
    auth.login(request, user, "django.contrib.auth.backends.ModelBackend")
    request.session.save()
    return request.session


def scope_of(session: Any, path: str, kwargs: dict[str, str]) -> dict[str, Any]:
    route = {"url_route": {"kwargs": kwargs}, "path": path}
    return {"type": "websocket", "headers": HEADERS, "session": session, **route}


async def opened(
    prepare: Callable[[], None] = lambda: None,
    path: str = "/ws/overview",
    kwargs: dict[str, str] | None = None,
) -> Any:
    """A socket that has got its first message, which is its ``hello``."""
    session = await database_sync_to_async(sign_in)()
    await database_sync_to_async(prepare)()
    socket: Any = ApplicationCommunicator(LiveConsumer.as_asgi(), scope_of(session, path, kwargs or {}))
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    socket.hello = json.loads((await socket.receive_output(PATIENCE_S))["text"])
    assert socket.hello["type"] == "hello"
    return socket


async def close_code(socket: ApplicationCommunicator) -> int:
    while True:
        message = await socket.receive_output(PATIENCE_S)
        if message["type"] == "websocket.close":
            await socket.send_input({"type": "websocket.disconnect", "code": message["code"]})
            await socket.wait(PATIENCE_S)
            return int(message["code"])


SHIPPED_CHECK_S, SHIPPED_FRESH_S = consumers.SESSION_CHECK_S, session_watch.FRESH_S


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SESSION_CHECK_S", 0.02)
    monkeypatch.setattr(session_watch, "FRESH_S", 0.01)


async def test_it_is_closed_at_its_longest_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "LONGEST_OPEN_S", 0.1)
    assert await close_code(await opened()) == 4408


@pytest.mark.parametrize(
    "end",
    [
        lambda: User.objects.update(is_active=False),
        lambda: User.objects.all().delete(),
        lambda: import_module(settings.SESSION_ENGINE).SessionStore.get_model_class().objects.all().delete(),
        lambda: User.objects.update(password="another"),
        lambda: ForcedPasswordChange.objects.create(user=User.objects.get()),
    ],
)
async def test_it_ends_with_the_account_or_the_session(end: Callable[[], Any]) -> None:
    socket = await opened()
    await database_sync_to_async(end)()
    assert await close_code(socket) == 4401


async def test_a_database_that_was_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself went on failing unseen: the socket then outlived its account."""
    answers = [OperationalError("away"), OperationalError("away"), NOTHING]

    async def access(session: Any) -> Access:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    socket = await opened()
    monkeypatch.setattr(ws_auth, "access", access)
    assert await close_code(socket) == 4401


async def test_it_ends_within_two_seconds_as_it_is_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SESSION_CHECK_S", SHIPPED_CHECK_S)
    monkeypatch.setattr(session_watch, "FRESH_S", SHIPPED_FRESH_S)
    socket = await opened()
    began = time.monotonic()
    await database_sync_to_async(lambda: User.objects.update(password="another"))()
    assert await close_code(socket) == 4401
    assert time.monotonic() - began < 2.0


async def test_sockets_of_one_session_share_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    real = ws_auth.access

    async def access(session: Any) -> Access:
        read.append(session)
        return await real(session)

    monkeypatch.setattr(ws_auth, "access", access)
    monkeypatch.setattr(session_watch, "FRESH_S", SHIPPED_FRESH_S)
    session = await database_sync_to_async(sign_in)()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(session_watch.access(session) for _ in range(50)))
    if loop.time() - began < session_watch.FRESH_S:
        assert len(read) == 1
    reading = asyncio.create_task(session_watch.access(session))
    await asyncio.sleep(0)
    reading.cancel()
    assert (await session_watch.access(session)).grants


async def test_all_sockets_of_a_process_share_a_reading_of_the_fleets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of 500 open pages had a query of its own each second."""
    asked: list[str] = []

    def noting(execute: Any, sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return execute(sql, *rest)

    await database_sync_to_async(two_teams)()
    session = await database_sync_to_async(sign_in)()
    name = {"name": "bid"}
    sockets = [
        ApplicationCommunicator(LiveConsumer.as_asgi(), scope_of(session, "/ws/fleets/bid", name))
        for _ in range(20)
    ]
    for socket in sockets:
        await socket.send_input({"type": "websocket.connect"})
        for _ in range(2):  # that it is accepted, and its first message
            await socket.receive_output(PATIENCE_S)
    monkeypatch.setattr(session_watch, "FRESH_S", 0.2)
    await asyncio.sleep(0.1)  # what began before is over
    wrappers: list[Any] = await database_sync_to_async(lambda: connection.execute_wrappers)()
    wrappers.append(noting)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(1)
    took = loop.time() - began
    wrappers.remove(noting)
    of_fleets = [sql for sql in asked if 'FROM "controlplane_fleet"' in sql]
    assert 1 <= len(of_fleets) <= took / session_watch.FRESH_S + 1
    for socket in sockets:
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(PATIENCE_S)


def frame_of(*names: str) -> OverviewFrame:
    summaries = [summary(name, 10.0 * (number + 1)) for number, name in enumerate(names)]
    total = Point(at=1.0, rps=99.0, p50_s=0.1, p99_s=0.2, errors_per_s=9.0, in_flight=9)
    everything = {"replicas": 9, "eligible": 9, "error_percent": 9.0, "refused_per_s": 9.0, "workers": []}
    return OverviewFrame(sequence=1, at=time.time(), table="1:1", total=total, fleets=summaries, **everything)


def summary(name: str, rps: float) -> FleetSummary:
    return FleetSummary(
        name=name,
        protocol="openai",
        aliases=[],
        adapters=[],
        strategy="round_robin",
        revision=1,
        rps=rps,
        p50_s=0.1,
        p99_s=0.2,
        error_percent=50.0,
        in_flight=2,
        queue=QueueLive(waiting=1),
        affinity=AffinityLive(),
        capacity=None,
        replicas=3,
        eligible=2,
        taking=2,
        cold=None,
        states={"ready": 2, "down": 1},
    )


def limit(selector: dict[str, str]) -> None:
    RoleGrant.objects.all().delete()
    RoleGrant.objects.create(user=User.objects.get(), role="read", selector=selector)


def two_teams() -> None:
    for name, team in (("find", "search"), ("bid", "ads")):
        Fleet.objects.create(name=name, protocol="openai", labels={"team": team})


async def test_the_overview_of_a_team_holds_its_fleets_only(redis_client: Any) -> None:
    await database_sync_to_async(two_teams)()
    redis_client.set(OVERVIEW_KEY, msgspec.json.encode(frame_of("find", "bid")))
    redis_client.rpush(history_key("*"), b'{"at":1.0,"rps":99.0,"errors_per_s":0}')
    socket = await opened(lambda: limit({"team": "ads"}))
    assert [fleet["name"] for fleet in socket.hello["frame"]["fleets"]] == ["bid"]
    assert (socket.hello["history"], list(socket.hello["sparks"])) == ([], [])
    total = socket.hello["frame"]["total"]
    assert (total["rps"], total["errors_per_s"], total["p99_s"], total["waiting"]) == (20.0, 10.0, None, 1)
    layer = get_channel_layer()
    frame = msgspec.json.encode(frame_of("find", "bid")).decode()
    await layer.group_send(OVERVIEW_GROUP, {"type": "live.frame", "data": frame})
    sent = json.loads((await socket.receive_output(PATIENCE_S))["text"])
    assert [fleet["name"] for fleet in sent["frame"]["fleets"]] == ["bid"]
    assert sent["frame"]["refused_per_s"] == 0
    await database_sync_to_async(limit)({"team": "search"})
    await asyncio.sleep(0.5)
    await layer.group_send(OVERVIEW_GROUP, {"type": "live.frame", "data": frame})
    sent = json.loads((await socket.receive_output(PATIENCE_S))["text"])
    assert [fleet["name"] for fleet in sent["frame"]["fleets"]] == ["find"]
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(PATIENCE_S)


async def test_a_fleet_of_another_team_is_none() -> None:
    await database_sync_to_async(two_teams)()
    assert await refused_with("/ws/fleets/find", {"name": "find"}, {"team": "ads"}) == 4404


async def test_client_keys_are_for_a_role_in_all_fleets() -> None:
    assert await refused_with("/ws/client-keys", {}, {"team": "ads"}, ClientKeysConsumer) == 4403


async def refused_with(
    path: str, kwargs: dict[str, str], selector: dict[str, str], consumer: Any = LiveConsumer
) -> int:
    session = await database_sync_to_async(sign_in)()
    await database_sync_to_async(limit)(selector)
    socket = ApplicationCommunicator(consumer.as_asgi(), scope_of(session, path, kwargs))
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    return await close_code(socket)


async def test_a_page_of_a_fleet_ends_when_its_team_loses_it() -> None:
    await database_sync_to_async(two_teams)()
    socket = await opened(lambda: limit({"team": "ads"}), "/ws/fleets/bid", {"name": "bid"})
    await database_sync_to_async(Fleet.objects.filter(name="bid").update)(labels={})
    assert await close_code(socket) == 4404
