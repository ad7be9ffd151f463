"""While another write holds SQLite for long, whoever only reads is answered at once."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from django.contrib.auth.models import User
from django.db import connection

from controlplane.models import ApiToken
from controlplane.services import tokens
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def caller(redis_server: RedisServer) -> Api:
    """Whose token was never used: that it is now is to be written."""
    user = User.objects.create_superuser("reader")
    return Api(tokens.create(user, "tests", "tests")[1])


@pytest.fixture
def locked(caller: Api) -> Iterator[None]:
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has one lock for all")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.usefixtures("locked")
@pytest.mark.parametrize("path", ["/system", "/fleets", "/events"])
def test_reading_is_answered_within_a_second(caller: Api, path: str) -> None:
    began = time.monotonic()
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    assert time.monotonic() - began < 1
    assert ApiToken.objects.get().last_used_at is None


def test_a_write_waits_as_before_once_a_brief_one_is_done(caller: Api) -> None:
    caller.get("/system")
    assert ApiToken.objects.get().last_used_at is not None
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            assert cursor.execute("PRAGMA busy_timeout").fetchone() == (20_000,)
