"""``switchyard agent`` as a process beside a real server, with the real API, Redis and runner."""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from controlplane.agent.command import main
from controlplane.discovery.lease_store import LeaseStore
from controlplane.discovery.runner import DiscoveryRunner
from controlplane.models import DiscoverySource, Replica, ReplicaHealth
from controlplane.services import sources, tokens
from tests.proxy_process import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


class ModelServer(http.server.ThreadingHTTPServer):
    """Answers its readiness URL with ``status``."""

    status = 503
    daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, ModelServer)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def agent(
    fresh_stores: None,
    live_server: LiveServer,
    redis_client: "redis.Redis",
    make_fleet: Callable[..., str],
    server: ModelServer,
) -> Iterator["subprocess.Popen[str]"]:
    make_fleet("llm")
    sources.create("llm", {"name": "self", "lease": {"allow": ["127.0.0.0/8"]}}, "anna")
    user = User.objects.create_user("agent", is_staff=True)
    token = tokens.create(user, "agent", "tests")[1]
    runner = DiscoveryRunner(redis_client, lambda: True)
    runner.start()
    words = ["agent", "--api", live_server.url, "--token", "env:AGENT_TOKEN", "--fleet", "llm"]
    words += ["--source", "self", "--name", "a", "--url", server.url, "--set", "site=east", "--period", "0.2"]
    program = "import sys; from controlplane.command_line import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env=os.environ | {"AGENT_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()
    runner.stop()


def until(what: Callable[[], Any]) -> None:
    ends = time.monotonic() + 30
    while not what():
        assert time.monotonic() < ends, "did not happen in time"
        time.sleep(0.02)


def test_it_registers_once_the_server_is_ready_and_leaves_when_told(
    agent: "subprocess.Popen[str]", server: ModelServer
) -> None:
    assert agent.stderr is not None
    until(lambda: "is not ready: status 503" in agent.stderr.readline())  # type: ignore[union-attr]
    assert not Replica.objects.exists()
    server.status = 200
    until(Replica.objects.exists)
    row = Replica.objects.get()
    assert (row.name, row.url, row.site, row.owner.source.name) == ("a", server.url, "east", "self")
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    agent.send_signal(signal.SIGTERM)
    until(lambda: Replica.objects.get().admin_state == "draining")
    assert agent.poll() is None, "it waits until requests in flight are finished"
    Replica.objects.get().delete()  # as the runner does once proxies say that nothing is in flight
    assert agent.wait(10) == 0


def test_one_whose_name_a_server_elsewhere_has_does_not_take_that_one_out(
    agent: "subprocess.Popen[str]", server: ModelServer, redis_client: "redis.Redis"
) -> None:
    assert agent.stderr is not None
    server.status = 200
    until(Replica.objects.exists)
    store = LeaseStore(redis_client, str(DiscoverySource.objects.get().uid))
    store.release("a")
    elsewhere = {"url": "http://127.0.0.1:9"}
    store.grant("a", elsewhere, 3600.0)
    until(lambda: Replica.objects.get().url == elsewhere["url"])
    agent.send_signal(signal.SIGTERM)
    until(lambda: "a server elsewhere has the name" in agent.stderr.readline())  # type: ignore[union-attr]
    assert store.read("a")[0]["a"].leaving is False
    assert Replica.objects.get().admin_state == "active"


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("--token", "sy_secret", "must be a reference, env:NAME or file:PATH, not the token itself"),
        ("--url", "10.0.0.1", "must look like http://host:port"),
        ("--set", "credential=x", "must be NAME=VALUE, of hardware,"),
        ("--period", "0", "must be a number of seconds, 0.1 to 86400"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    flag: str, value: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("x")
    good = {
        "--api": "http://127.0.0.1:1",
        "--token": f"file:{tmp_path / 'token'}",
        "--fleet": "llm",
        "--source": "self",
        "--name": "a",
        "--url": "http://127.0.0.1:2",
    }
    with pytest.raises(SystemExit, match="2"):
        main([part for pair in (good | {flag: value}).items() for part in pair])
    assert words in capsys.readouterr().err
