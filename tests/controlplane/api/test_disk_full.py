"""The disk is full: reads are answered, writes say so and what to do, and go on by themselves."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import Client, RequestFactory

from controlplane.api import errors
from controlplane.datastores import disk_full, sqlite_log
from controlplane.models import ApiToken
from controlplane.system import components
from controlplane.system.fact_reader import DatabaseFacts
from tests.controlplane.conftest import Api
from tests.small_disk import mounted


class FullDatabase:
    """SQLite reports that it is full when it may have no more pages; it says the same for a full disk."""

    def fill(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # so that no page is free
            cursor.execute("PRAGMA page_count")
            (pages,) = cursor.fetchone()
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1073741823")


@pytest.fixture
def full_database() -> Iterator[FullDatabase]:
    if connection.vendor != "sqlite":
        pytest.skip("fills a database of SQLite")
    database = FullDatabase()
    yield database
    database.free()


MANY: dict[str, Any] = {
    "name": "many",
    "protocol": "generic",
    "replicas": [{"name": f"r{n}", "url": f"http://127.0.0.1:{20_000 + n}"} for n in range(300)],
}
"""More rows than fit into a few pages."""


def test_a_write_says_what_is_full_and_goes_on_when_there_is_room(
    api: Api, fresh_stores: None, llm: str, full_database: FullDatabase
) -> None:
    full_database.fill()
    answer = api.post("/fleets", MANY)
    assert answer.status_code == 503
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Retry-After"] == "10"
    detail = answer.json()["detail"]
    assert detail.startswith("The disk is full: nothing was changed. Free space in ")
    assert str(disk_full.folder()) in detail
    assert api.get("/fleets").status_code == 200
    assert api.get("/fleets/llm").status_code == 200
    full_database.free()
    assert api.post("/fleets", MANY).status_code == 201


def test_rows_can_be_read_on_a_full_disk_while_the_log_is_held_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite")
    monkeypatch.setattr(sqlite_log, "_held", [])
    with mounted(tmp_path / "disk", mebibytes=2) as disk:
        file = disk.folder / "db.sqlite3"
        with closing(sqlite3.connect(file)) as made:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("CREATE TABLE one (text)")
            made.execute("INSERT INTO one VALUES ('there')")
            made.commit()

        def rows() -> list[tuple[str]]:
            with closing(sqlite3.connect(file)) as opened:
                return opened.execute("SELECT text FROM one").fetchall()

        disk.fill()
        with pytest.raises(sqlite3.OperationalError):
            rows()
        disk.free()
        monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
        sqlite_log.hold_open()
        disk.fill()
        assert rows() == [("there",)]
        for held in sqlite_log._held:
            held.close()


def test_a_token_opens_where_its_last_use_cannot_be_written(
    api: Api, llm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> int:
        raise OperationalError("full") from OSError(errno.ENOSPC, "No space left on device")

    ApiToken.objects.update(last_used_at=None)
    monkeypatch.setattr("django.db.models.query.QuerySet.update", fails)
    assert api.get("/fleets").status_code == 200


@pytest.mark.any_database
def test_which_errors_mean_it(tmp_path: Path) -> None:
    full = sqlite3.connect(tmp_path / "full.sqlite3", isolation_level=None)
    full.execute("CREATE TABLE one (text)")
    full.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as caught:
        full.execute("INSERT INTO one VALUES (zeroblob(100000))")
    full.close()
    for cause in (OSError(errno.ENOSPC, "no space"), OSError(errno.EDQUOT, "quota"), caught.value):
        error = OperationalError("database or disk is full")
        error.__cause__ = cause
        assert str(disk_full.sentence(error)).startswith("The disk is full")
    assert str(disk_full.sentence(psycopg.errors.DiskFull("full"))).startswith("The disk of PostgreSQL is")
    assert disk_full.sentence(OperationalError("database is locked")) is None
    assert disk_full.sentence(OSError(errno.ENOENT, "no such file")) is None
    assert disk_full.sentence(None) is None


@pytest.mark.any_database
def test_pages_say_it_too() -> None:
    request = RequestFactory().get("/", headers={"accept": "text/html"})
    try:
        raise OSError(errno.ENOSPC, "no space")
    except OSError:
        response = errors.server_error(request)
    assert (response.status_code, response["Retry-After"]) == (503, "10")
    assert b"The disk is full" in response.content
    assert errors.server_error(request).status_code == 500
    assert Client().get("/livez").status_code == 200


@pytest.mark.any_database
def test_the_system_page_shows_it() -> None:
    facts: dict[str, Any] = {
        "vendor": "sqlite",
        "version": "3.45",
        "state": "ok",
        "migrations": 1,
        "round_trip_s": 0.001,
        "manifest": "1:1",
        "fleets": {},
        "replicas": 0,
    }
    assert components.database(DatabaseFacts(**facts, free_bytes=10**9)).level == "calm"
    part = components.database(DatabaseFacts(**facts, free_bytes=0))
    assert (part.level, part.state) == ("bad", "full")
    assert part.cure.startswith("Free space in the data folder")
