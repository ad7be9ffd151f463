"""How long a WebSocket stays open: no longer than the session, the account, and its longest age."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest

from controlplane.models import ForcedPasswordChange
from dashboard import consumers, ws_auth
from dashboard.consumers import LiveConsumer

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


async def opened() -> ApplicationCommunicator:
    session = await database_sync_to_async(sign_in)()
    route = {"url_route": {"kwargs": {}}, "path": "/ws/overview"}
    scope = {"type": "websocket", "headers": HEADERS, "session": session, **route}
    socket = ApplicationCommunicator(LiveConsumer.as_asgi(), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    assert json.loads((await socket.receive_output(PATIENCE_S))["text"])["type"] == "hello"
    return socket


async def close_code(socket: ApplicationCommunicator) -> int:
    while True:
        message = await socket.receive_output(PATIENCE_S)
        if message["type"] == "websocket.close":
            await socket.send_input({"type": "websocket.disconnect", "code": message["code"]})
            await socket.wait(PATIENCE_S)
            return int(message["code"])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SESSION_CHECK_S", 0.02)


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
    answers = [OperationalError("away"), OperationalError("away"), False]

    async def signed_in(session: Any) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    socket = await opened()
    monkeypatch.setattr(ws_auth, "signed_in", signed_in)
    assert await close_code(socket) == 4401
