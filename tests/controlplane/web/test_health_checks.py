"""``/livez`` and ``/readyz`` of the web process."""

from typing import Any

import pytest
from django.db.migrations.executor import MigrationExecutor
from django.test import Client

from controlplane.datastores import availability


def test_live() -> None:
    assert Client().get("/livez").json() == {"status": "live"}


def test_ready() -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "database": "ok", "redis": "ok"}


def test_an_absent_redis_is_told_but_pages_go_on(redis_server: Any) -> None:
    redis_server.stop()
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["redis"] == "away"


def test_missing_migrations_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    availability._seen_migrated.clear()
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda self, targets: ["one to go"])
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert ".venv/bin/switchyard migrate" in answer.json()["database"]


def test_an_absent_database_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why. Strangers may ask, and a driver's error names hosts and accounts."""
    from django.db import OperationalError, connection

    def away() -> None:
        raise OperationalError("no such file")

    with monkeypatch.context() as only_now:
        only_now.setattr(connection, "cursor", away)
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["database"] == "unreachable"
    assert "/readyz: database: unreachable: no such file" in caplog.text
