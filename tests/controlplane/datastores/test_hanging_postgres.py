"""A PostgreSQL that hangs (its processes are stopped): nothing waits without end, and all goes on after."""

import http.client
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from django.db import InterfaceError, OperationalError

from controlplane.datastores import database_away
from controlplane.datastores.postgresql import hangs
from controlplane.datastores.postgresql.hangs import HangDetector, NoAnswer, ServerAddress, ServerHangs
from controlplane.supervision.processes import descendants
from tests import postgres
from tests.needs import need
from tests.ports import free_port, unaccepting_port
from tests.proxy_process import LIMIT_S, ROOT, until

pytestmark = pytest.mark.any_database


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.PostgresServer]:
    need(postgres.binaries(), postgres.ABSENT)
    server = postgres.PostgresServer()
    server.start()
    yield server
    server.stop()


@contextmanager
def stopped(server: postgres.PostgresServer) -> Iterator[None]:
    """The whole server: the kernel still takes connections and bytes for it."""
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)  # first: from here on it starts no other and reaps none
    pids = [server.process.pid, *descendants(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # it had ended, and the server, which goes on, has reaped it
                os.kill(pid, signal.SIGCONT)


def connected(server: postgres.PostgresServer, watch: HangDetector) -> "psycopg.Connection[tuple[int]]":
    connection = psycopg.connect(server.url("postgres"), autocommit=True)
    hangs.guard(connection, watch)
    return connection


def test_a_statement_ends_and_what_follows_fails_at_once(server: postgres.PostgresServer) -> None:
    watch = HangDetector(every_s=0.05)
    first, second = connected(server, watch), connected(server, watch)
    with stopped(server):
        with pytest.raises(NoAnswer, match="does not respond"):
            first.execute("SELECT 1")
        assert first.closed, "its answer would be taken for that of the next statement"
        with pytest.raises(ServerHangs, match="has not responded for"):
            watch.check()
        with pytest.raises(NoAnswer):
            second.execute("SELECT 1")
    until(lambda: not watch.hangs, "it is seen to respond")
    watch.check()
    with connected(server, watch) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)


def test_a_slow_statement_is_no_hang(
    server: postgres.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangs, "SILENT_S", 0.1)
    asked: list[bool] = []

    def ask(place: ServerAddress) -> bool:
        asked.append(hangs.responds(place))
        return asked[-1]

    with connected(server, HangDetector(ask, every_s=0.05)) as connection:
        assert connection.execute("SELECT 1 FROM pg_sleep(1)").fetchone() == (1,)
        assert asked
        assert all(asked)
        connection.last_limit_s = 0.2  # type: ignore[attr-defined]  # as a pooler answers for a server that hangs
        with pytest.raises(NoAnswer):
            connection.execute("SELECT 1 FROM pg_sleep(600)")


def test_a_login_that_takes_too_long_counts_at_once(server: postgres.PostgresServer) -> None:
    place = ServerAddress(str(server.folder), 5432)
    watch = HangDetector(every_s=0.05)
    watch.login_timed_out(None)
    watch.check()  # nobody knows whom to ask
    with stopped(server):
        watch.login_timed_out(place)
        with pytest.raises(ServerHangs):
            watch.check()
    until(lambda: not watch.hangs, "it is seen to respond")


def test_who_refuses_responds_and_who_is_silent_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hangs.responds(ServerAddress("127.0.0.1", free_port()))
    assert hangs.responds(ServerAddress("/nowhere", 5432))
    monkeypatch.setattr(hangs, "ANSWER_S", 0.2)
    with unaccepting_port() as port:
        assert not hangs.responds(ServerAddress("127.0.0.1", port))


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"host": "/run/postgresql"}, ServerAddress("/run/postgresql", 5432)),
        ({"host": "db", "port": "6000"}, ServerAddress("db", 6000)),
        ({"host": "a,b"}, None),
        ({}, None),
    ],
)
def test_the_place_that_is_named(parameters: dict[str, str], place: ServerAddress | None) -> None:
    assert ServerAddress.named(parameters) == place


def caused(kind: type[Exception], cause: Exception) -> Exception:
    error = kind(str(cause))
    error.__cause__ = cause
    return error


def busy(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


def test_what_is_said_of_a_database_that_is_away() -> None:
    def said(error: Exception) -> str:
        return database_away.sentence(error) or ""

    assert "does not respond" in said(caused(OperationalError, NoAnswer("x")))
    assert "may yet be carried out" in said(caused(OperationalError, NoAnswer("x")))
    assert "may yet be carried out" not in said(caused(OperationalError, ServerHangs("x")))
    assert "cannot be reached" in said(caused(OperationalError, psycopg.OperationalError("refused")))
    assert "cannot be reached" in said(caused(InterfaceError, psycopg.InterfaceError("closed")))
    assert "in time" in said(caused(OperationalError, psycopg.errors.QueryCanceled("statement timeout")))
    assert "in time" in said(caused(OperationalError, psycopg.errors.LockNotAvailable("lock timeout")))
    assert said(caused(OperationalError, psycopg.errors.DiskFull("full"))) == "", "which has words of its own"
    assert "busy" in said(caused(OperationalError, busy(sqlite3.SQLITE_BUSY)))
    assert said(caused(OperationalError, busy(sqlite3.SQLITE_ERROR))) == ""
    assert said(ValueError("another")) == ""


PREPARE = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from controlplane.services import tokens
call_command("migrate", verbosity=0)
print(tokens.create(User.objects.create_user("anna", is_staff=True), "tests", "tests")[1])
"""


@pytest.mark.system
@pytest.mark.timeout(300)
def test_web_and_conductor_go_on(server: postgres.PostgresServer, redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    environment = os.environ | {
        "SWITCHYARD_DATABASE_URL": server.create_database("hangs"),
        "SWITCHYARD_DATA_DIR": str(tmp_path),
        "SWITCHYARD_REDIS_URL": redis_url,
    }

    prepare = [sys.executable, "-c", PREPARE]
    done = subprocess.run(prepare, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    token = done.stdout.split()[-1]

    def read() -> tuple[int, str, float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        began = time.monotonic()
        try:
            connection.request("GET", "/api/v1/fleets", headers={"Authorization": f"Token {token}"})
            response = connection.getresponse()
            return response.status, response.read().decode(), time.monotonic() - began
        except OSError:
            return 0, "", 0.0
        finally:
            connection.close()

    log = tmp_path / "conductor.log"
    web = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    conductor = [sys.executable, "manage.py", "conductor"]
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        for command in (web, conductor):
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
            )
            stack.callback(process.kill)
        until(lambda: read()[0] == 200, "the API is read")
        until(lambda: "this conductor leads" in log.read_text(), "a conductor leads")
        with stopped(server):
            for _ in range(3):
                status, body, took_s = read()
                assert status == 503, body
                assert "try again in a moment" in body
            assert took_s < LIMIT_S / 4, "it is known by then, and nobody waits"
            until(lambda: "the database does not answer" in log.read_text(), "the conductor goes on")
        until(lambda: read()[0] == 200, "the API is read again")
        until(lambda: "the database answers again" in log.read_text(), "the conductor too")
