"""A Redis that comes, or comes back, as another installation's, while all runs: nothing is written to it."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_package
from django.contrib.auth.models import User
from django.test import Client

from controlplane.datastores import redis
from controlplane.datastores.redis_gate import NotOurs, RedisGate, gate
from controlplane.models import TableState
from controlplane.publishing import installation, redis_owner
from controlplane.services import policies
from routing.contract import redis_keys
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api
from tests.controlplane.telemetry.reports import report, send
from tests.ports import free_port
from tests.proxy_process import LIMIT_S, ROOT, until

PATIENCE_S = 120.0
OTHER = "00000000-0000-4000-8000-00000000000f"
BELONGS = f"belongs to another installation, {OTHER}"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that watches its Redis."""
    installation.identity()
    monkeypatch.setattr(gate, "_look", lambda: refused.words if (refused := redis_owner.look()) else "")
    yield
    gate.words = ""


def bind(client: Any, name: str, instance: str = "there", heard_s: int = 0) -> None:
    heard = client.time()[0] - heard_s
    client.hset(
        redis_keys.INSTALLATION, mapping={"id": name, "instance": instance, "epoch": 1, "heard": heard}
    )


def test_a_new_connection_is_looked_at_before_anything_is_written(
    llm: str, redis_client: Any, watched: None
) -> None:
    redis.client().set("ours", 1)
    bind(redis_client, OTHER)
    redis.client().connection_pool.disconnect()
    with pytest.raises(NotOurs, match=BELONGS):
        redis.client().set("theirs", 1)
    with pytest.raises(NotOurs, match="switchyard takeover"):
        redis.client().set("theirs", 1)
    assert redis_client.get("theirs") is None
    assert policies.change("llm", {"slow_start_s": 3}, "tests").published is False
    bind(redis_client, installation.identity().id, installation.identity().instance)
    assert redis_owner.refresh() is None
    redis.client().set("ours", 2)


async def test_a_connection_of_an_event_loop_is_looked_at_too(
    redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_look", lambda: "not yours")
    client: Any = redis.async_client()
    try:
        with pytest.raises(redis_package.RedisError, match="not yours"):
            await client.set("theirs", 1)
    finally:
        gate.words = ""
        await client.aclose()
    assert redis_client.get("theirs") is None


def test_what_a_redis_is_taken_for(llm: str, redis_client: Any) -> None:
    def found() -> str | None:
        refused = redis_owner.refresh()
        gate.words = ""
        return refused and refused.kind

    ours = installation.identity()
    assert found() is None
    bind(redis_client, OTHER)
    assert found() == "foreign"
    TableState.objects.update(succeeded=[OTHER])
    assert found() == "foreign", "which has taken it back since"
    TableState.objects.update(epoch=2)
    assert found() is None, "it is taken over with the next table"
    TableState.objects.update(succeeded=[], epoch=ours.epoch)
    bind(redis_client, ours.id, "another database")
    assert found() == "copy"
    bind(redis_client, ours.id, "another database", heard_s=60)
    assert found() is None
    redis_client.flushall()
    assert found() is None, "nobody's"
    send(redis_client, report(installation=ours.id))
    assert found() is None
    send(redis_client, report(worker="w2", installation=OTHER))
    assert found() == "foreign", "its proxies know whose it is"


def test_while_the_database_is_away_a_redis_that_is_bound_is_left_alone(
    redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "known", lambda: None)
    assert redis_owner.look() is None, "it is nobody's"
    bind(redis_client, OTHER)
    refused = redis_owner.look()
    assert refused is not None
    assert refused.kind == "unknown"


def test_pages_say_it_at_their_head(fresh_stores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(User.objects.create_user("anna"))
    assert b'role="alert"' not in client.get("/events").content
    monkeypatch.setattr(gate, "words", f"This Redis {BELONGS}.")
    page = client.get("/events").content.decode()
    assert "Changes made here reach no proxy." in page
    assert BELONGS in page


def test_the_api_says_it(api: Api, llm: str, redis_client: Any, watched: None) -> None:
    bind(redis_client, OTHER)
    redis_owner.refresh()
    change = api.patch("/fleets/llm/policy", {"slow_start_s": 3}).json()
    assert change["published"] is False
    assert BELONGS in change["not_published"]
    live = api.get("/live")
    assert (live.status_code, BELONGS in live.json()["detail"]) == (503, True)
    part = next(part for part in api.get("/system").json()["parts"] if part["name"] == "redis")
    assert (part["level"], part["state"], BELONGS in part["words"]) == ("bad", "foreign", True)


def test_a_gate_that_nobody_watches_is_open() -> None:
    RedisGate().admit()
    RedisGate().check()


# --- Real processes ---

PREPARE = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from controlplane.services import fleets, tokens
call_command("migrate", verbosity=0)
one = {"name": "a", "url": "http://127.0.0.1:9"}
fleets.create({"name": "ours", "protocol": "generic", "replicas": [one]}, "tests")
print(tokens.create(User.objects.create_user("anna", is_staff=True), "tests", "tests")[1])
"""


def everything(url: str) -> dict[tuple[int, bytes], Any]:
    """All keys of all three logical databases, and what they hold."""
    found = {}
    for number in range(3):
        with redis_package.Redis.from_url(url.replace("db=0", f"db={number}")) as client:
            for key in client.scan_iter():
                found[number, key] = client.dump(key)
    return found


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's path has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="sy-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.system
@pytest.mark.timeout(400)
def test_a_redis_that_comes_up_as_anothers_is_left_alone(short_folder: Path, tmp_path: Path) -> None:
    socket, port = short_folder / "redis.sock", free_port()
    environment = os.environ | {
        "SWITCHYARD_DATABASE_URL": f"sqlite://{tmp_path / 'db.sqlite3'}",
        "SWITCHYARD_DATA_DIR": str(tmp_path),
        "SWITCHYARD_REDIS_URL": f"unix://{socket}?db=0",
    }
    prepare = [sys.executable, "-c", PREPARE]
    done = subprocess.run(prepare, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    token = done.stdout.split()[-1]

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        with suppress(OSError, ValueError):
            connection.request(method, path, body and json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        return 0, {}

    celery = ["-m", "celery", "--quiet", "-A", "controlplane.celery"]
    # Without the flags that make a worker say less to its peers.
    programs = {
        "web": ["-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)],
        "conductor": ["manage.py", "conductor"],
        "worker": [*celery, "worker", "--pool", "threads", "--concurrency", "2"],
        "beat": [*celery, "beat", "--pidfile="],
    }
    running = {}
    with ExitStack() as stack:
        for name, program in programs.items():
            output = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = [sys.executable, *program]
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
            running[name] = stack.enter_context(process)
            stack.callback(process.kill)

        def log(name: str) -> str:
            return (tmp_path / f"{name}.log").read_text()

        until(lambda: ask("GET", "/readyz")[0] == 200, "the web process is ready", PATIENCE_S)
        until(lambda: "Redis does not answer" in log("conductor"), "the conductor waits", PATIENCE_S)
        until(lambda: "Cannot connect to" in log("worker"), "the worker waits", PATIENCE_S)
        until(lambda: "Redis does not answer" in log("beat"), "beat waits", PATIENCE_S)

        server = RedisServer(short_folder / "elsewhere.sock")
        server.start()
        stack.callback(server.stop)
        with redis_package.Redis.from_url(server.url) as client:
            bind(client, OTHER)
            client.zadd("sy:probe:due", {"of another": 1})
        before = everything(server.url)
        (short_folder / "elsewhere.sock").rename(socket)
        url = f"unix://{socket}?db=0"

        until(lambda: ask("GET", "/readyz")[1]["redis"] == "away", "the web process keeps away", PATIENCE_S)
        until(lambda: BELONGS in log("web"), "and says why", PATIENCE_S)
        until(lambda: "Redis is not used" in log("conductor"), "so does the conductor", PATIENCE_S)
        assert until(lambda: running["worker"].poll(), "the worker ends", PATIENCE_S) == 1
        assert until(lambda: running["beat"].poll(), "beat ends", PATIENCE_S) == 1
        for name in running:
            assert BELONGS in log(name), name
            assert "switchyard takeover" in log(name), name
        status, change = ask("PATCH", "/api/v1/fleets/ours/policy", {"slow_start_s": 3})
        assert (status, change["published"]) == (200, False)
        assert BELONGS in change["not_published"]
        replica = {"name": "b", "url": "http://127.0.0.1:9"}
        assert ask("POST", "/api/v1/fleets/ours/replicas?trial=no", replica)[1]["published"] is False
        time.sleep(2.0)  # in which heartbeats and ticks would be due
        assert everything(url) == before, "nothing was written, and nothing was taken"

        takeover = [sys.executable, "manage.py", "takeover", "--yes"]
        subprocess.run(takeover, cwd=ROOT, env=environment, check=True, capture_output=True)
        until(lambda: "is used again" in log("conductor"), "the conductor goes on", PATIENCE_S)
        until(lambda: ask("GET", "/readyz")[1].get("redis") == "ok", "and the web process", PATIENCE_S)
        assert ask("PATCH", "/api/v1/fleets/ours/policy", {"slow_start_s": 4})[1]["published"] is True
