"""PostgreSQL: no statement and no lock of ours waits for ever. On SQLite the same calls do nothing."""

from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from controlplane.datastores import postgres_timeouts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _postgres() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("on PostgreSQL only; SQLite's own limit is in its settings")


def shown() -> dict[str, str]:
    with connection.cursor() as cursor:
        found = {}
        for name in postgres_timeouts.LIMITS_S:
            cursor.execute(f"SHOW {name}")
            found[name] = cursor.fetchone()[0]
        return found


LIMITED = {
    "statement_timeout": "30s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "1min",
}


def test_each_new_connection_has_limits_until_they_are_lifted() -> None:
    connection.close()
    assert shown() == LIMITED
    postgres_timeouts.lift(connection)
    assert shown() == {
        "statement_timeout": "0",
        "lock_timeout": "1min",
        "idle_in_transaction_session_timeout": "0",
    }
    connection.close()
    assert shown() == LIMITED


def test_options_of_the_url_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = connection.settings_dict["OPTIONS"]
    connection.close()
    monkeypatch.setitem(options, "options", "-c statement_timeout=7s")
    try:
        assert shown()["statement_timeout"] == "7s"
    finally:
        connection.close()


def test_a_statement_that_takes_too_long_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setitem(postgres_timeouts.LIMITS_S, "statement_timeout", 1)
    try:
        with pytest.raises(OperationalError, match="statement timeout"), transaction.atomic():
            connection.cursor().execute("SELECT pg_sleep(600)")
    finally:
        connection.close()
