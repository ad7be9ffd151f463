"""Every list and every page makes as many queries for thirty rows of everything as for three.

And while another write holds SQLite for long, each of them is answered within a second: readers never wait.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.access.grants import Grant
from controlplane.config.environment import SQLITE_TIMEOUT_S
from controlplane.models import AlertSilence, ClientKey
from controlplane.services import accounts, tokens
from tests.controlplane.api.everything import fill
from tests.controlplane.conftest import Api
from tests.security.access_matrix import API, PAGES

NAMES = {
    "fleet": "fleet-0",
    "replica": "r1",
    "accelerator": "node1/gpu0",
    "source": "source-1",
    "number": "1",
}
NAMED = {
    "hardware-classes": "class-1",
    "exporters": "exporter-1",
    "rules": "rule-1",
    "destinations": "pager-1",
    "fleets": "fleet-0",
}
"""Part of the address before it → what ``name`` is there."""
QUERIES = {"/api/v1/drains": "?accelerator=node1/gpu0"}
ABSENT = frozenset({"/api/v1/fleets/<str:fleet>/sources/<str:source>/leases/<str:replica>"})
"""There is no lease: it would be in Redis alone."""
Get = Callable[[str], HttpResponse]


def path(route: str) -> str:
    named = re.sub(r"([\w-]+)/<str:name>", lambda found: f"{found[1]}/{NAMED[found[1]]}", route)
    first = {"key": ClientKey, "silence": AlertSilence}
    names = {name: str(model.objects.earliest("pk").pk) for name, model in first.items()} | NAMES
    return re.sub(r"<\w+:(\w+)>", lambda found: names[found[1]], named) + QUERIES.get(route, "")


ROUTES = sorted(
    route for route, methods in {**API, **PAGES}.items() if "GET" in methods and route not in ABSENT
)


@pytest.fixture
def callers(redis_server: object) -> dict[str, Get]:
    """An administrator's token and session; and a token for the fleets of one team."""
    root = User.objects.create_superuser("root", password="x")
    api = Api(tokens.create(root, "tests", "tests")[1])
    accounts.create("team", "tests", [Grant.parse("administer:team=search")])
    team = Api(tokens.create(User.objects.get(username="team"), "tests", "tests")[1])
    session = Client(raise_request_exception=False)
    session.force_login(root)
    fill(api, 3)

    def asked(address: str) -> HttpResponse:
        if address.startswith("/api/v1/") and address != "/api/v1/docs":
            return api.get(address.removeprefix("/api/v1"))
        return session.get(address)

    return {
        "administrator": asked,
        "team": lambda address: team.get(address.removeprefix("/api/v1")),
        "fill": lambda rows: fill(api, int(rows), 3),  # type: ignore[dict-item,return-value]
    }


def queries(get: Get, address: str) -> list[str]:
    """Those of one request, at the second time: what is kept in memory is there then."""
    get(address)
    with CaptureQueriesContext(connection) as captured:
        answer = get(address)
    assert answer.status_code < 500, (address, answer.content)
    return [one["sql"] for one in captured]


def test_as_many_queries_for_thirty_of_everything_as_for_three(callers: dict[str, Get]) -> None:
    asked = [(who, path(route)) for who in ("administrator", "team") for route in ROUTES]
    few = {(who, address): queries(callers[who], address) for who, address in asked}
    callers["fill"]("30")
    grown = []
    for (who, address), before in few.items():
        made = queries(callers[who], address)
        if len(made) > len(before):
            made = queries(callers[who], address)  # once a minute it is noted that the token is in use
        if len(made) > len(before):
            more = list(set(made) - set(before))[:2]
            grown.append(f"{who}, {address}: {len(before)} → {len(made)}\n    {more}")
    assert not grown, "\n".join(grown)


@pytest.fixture
def locked(callers: dict[str, Get]) -> Iterator[None]:
    """Another connection writes, and does not end."""
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has one lock for all")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.usefixtures("locked")
def test_behind_a_locked_database_everything_is_read_without_a_wait(callers: dict[str, Get]) -> None:
    """Who waits for the lock does for SQLITE_TIMEOUT_S. How long reading takes is the benchmarks' to say."""
    late = []
    for route in ROUTES:
        address = path(route)
        for _ in range(2):  # on a busy machine the first one may be late for what it has to import
            began = time.monotonic()
            answer = callers["administrator"](address)
            took_s = time.monotonic() - began
        if answer.status_code not in (200, 302) or took_s > SQLITE_TIMEOUT_S / 2:
            late.append(f"{route}: {answer.status_code} after {took_s:.1f} s: {answer.content[:200]!r}")
    assert not late, "\n".join(late)
