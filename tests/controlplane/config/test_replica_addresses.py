"""Which addresses the control plane's processes deny: by settings, and where they listen or connect to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_database

ROOT = Path(__file__).resolve().parents[3]
CODE = (
    "import django, json, sys; django.setup(); from routing.contract import address_policy; "
    "policy = address_policy.in_force(); "
    "print(json.dumps([policy.why_host_denied(host, port) for host, port in json.loads(sys.argv[1])]))"
)


def denied(tmp_path: Path, *places: tuple[str, int], **settings: str) -> list[str | None]:
    """Why a process that was started with these settings denies each place."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(places)],
        cwd=ROOT,
        env={
            **kept,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "SWITCHYARD_DATA_DIR": str(tmp_path),
            **{f"SWITCHYARD_{name}": value for name, value in settings.items()},
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: list[str | None] = json.loads(done.stdout)
    return found


def test_by_the_lists_of_the_settings(tmp_path: Path) -> None:
    places = (("10.1.1.1", 1), ("10.2.1.1", 1), ("127.0.0.1", 9000), ("127.0.0.1", 9001))
    found = denied(
        tmp_path,
        *places,
        DENIED_ADDRESSES="10.0.0.0/8",
        ALLOWED_ADDRESSES="10.2.0.0/16, 127.0.0.0/8",
        OWN_PORTS="9000",
    )
    assert found == [
        "10.1.1.1 is denied by SWITCHYARD_DENIED_ADDRESSES=10.0.0.0/8: "
        "no replica can be there unless SWITCHYARD_ALLOWED_ADDRESSES names it",
        None,
        "127.0.0.1:9000 is a port of Switchyard (SWITCHYARD_OWN_PORTS): no replica can be there",
        None,
    ]


def test_where_the_process_listens_and_what_it_connects_to(tmp_path: Path) -> None:
    metrics, proxy, redis = ("localhost", 9464), ("10.0.0.5", 8080), ("10.0.0.6", 6379)
    database, named, other = ("10.0.0.7", 5432), ("db.internal", 6432), ("10.0.0.8", 6432)
    settings = {
        "METRICS_LISTEN": "127.0.0.1:9464",
        "PROXY_URL": "http://10.0.0.5:8080",
        "REDIS_URL": "redis://:password@10.0.0.6/0",
    }
    url = "postgresql://anna:password@10.0.0.7/switchyard"
    found = denied(tmp_path, metrics, proxy, redis, database, other, **settings, DATABASE_URL=url)
    assert found == [
        "localhost:9464 is Switchyard's metrics listener: no replica can be there",
        "10.0.0.5:8080 is the proxy (SWITCHYARD_PROXY_URL): no replica can be there",
        "10.0.0.6:6379 is Switchyard's Redis: no replica can be there",
        "10.0.0.7:5432 is Switchyard's database: no replica can be there",
        None,
    ]
    url = "postgresql://anna:password@db.internal:6432/switchyard"
    places = (named, other, ("10.0.0.5", 8000), ("10.0.0.7", 6379), database)
    words = "is Switchyard's database: no replica can be there"
    # At any address, because it may be one of that name.
    assert denied(tmp_path, *places, **settings, DATABASE_URL=url) == [
        f"db.internal:6432 {words}",
        f"10.0.0.8:6432 {words}",
        None,
        None,
        None,
    ]


def test_where_something_else_may_be(tmp_path: Path) -> None:
    # A proxy that was started on another port leaves that of the default to others.
    assert denied(tmp_path, ("127.0.0.1", 8080)) == [None]
    places = (("127.0.0.1", 6379), ("127.0.0.1", 5432), ("models.example.com", 443), ("10.0.0.5", 443))
    database = "postgresql://switchyard@/switchyard?host=/run/postgresql"
    url = "https://models.example.com"
    assert denied(tmp_path, *places, DATABASE_URL=database, PROXY_URL=f"{url}/inference") == [None] * 4
    *others, proxy, address = denied(tmp_path, *places, DATABASE_URL=database, PROXY_URL=url)
    assert proxy == "models.example.com:443 is the proxy (SWITCHYARD_PROXY_URL): no replica can be there"
    assert [*others, address] == [None] * 3
