"""Secrets at rest: what the running product was given or has made is nowhere in what it keeps or says.

That is database, Redis, logs, backup, the proxy's copy of the table, process arguments and error messages.
"""

import base64
import gzip
import http.cookiejar
import io
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from controlplane.supervision import state_file
from controlplane.supervision.environment import socket_path
from tests.proxy_process import ROOT, Replica, until
from tests.system.stack import Stack, command_line, exchange

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(300)]

OWN_PASSWORD = "amber-heron-4471-of-the-tests"
WRONG_PASSWORD = "a-wrong-pass-that-was-typed-93"
MISTAKEN = "hf_ATokenPastedIntoTheFieldOfAReference"
REPLICA_TOKEN = "the-token-that-replicas-want-5512"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("up"), "--no-examples", "--no-client")
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    made = Replica("a")
    yield made
    made.stop()


class Browser:
    """Signs in and chooses a password of its own."""

    def __init__(self, stack: Stack) -> None:
        self.url = stack.url
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.opener.addheaders = [("Accept", "text/html")]

    def cookie(self, name: str) -> str:
        return next(one.value or "" for one in self.jar if one.name == name)

    def post(self, path: str, **fields: str) -> str:
        self.opener.open(f"{self.url}{path}").close()
        form = {**fields, "csrfmiddlewaretoken": self.cookie("csrftoken")}
        with self.opener.open(f"{self.url}{path}", urllib.parse.urlencode(form).encode()) as response:
            return str(response.url)


@pytest.fixture(scope="module")
def secrets(stack: Stack, replica: Replica, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What it is → the secret. Each was used: the product has had it in its hands."""
    token_file = tmp_path_factory.mktemp("elsewhere") / "replica.token"
    token_file.write_text(REPLICA_TOKEN)
    browser = Browser(stack)
    browser.post("/login", username="admin", password=WRONG_PASSWORD)
    browser.post("/login", username="admin", password=stack.one_time_password)
    first = browser.cookie("sessionid")
    given = {"old_password": stack.one_time_password, "new_password1": OWN_PASSWORD}
    browser.post("/password", **given, new_password2=OWN_PASSWORD)
    again = Browser(stack)
    assert again.post("/login", username="admin", password=OWN_PASSWORD) == f"{stack.url}/"
    row = {"name": "a", "url": replica.url, "credential": f"file:{token_file}"}
    stack.api("POST", "/fleets", {"name": "echo", "protocol": "generic", "replicas": [row]})
    key = stack.api("POST", "/client-keys", {"name": "tests"})["key"]
    api_token = stack.api("POST", "/tokens", {"name": "scripts"})["token"]
    until(lambda: stack.ask("/fleets/echo/x", Authorization=f"Bearer {key}").status == 200, "it answers", 60)
    assert replica.authorizations[-1] == f"Bearer {REPLICA_TOKEN}"
    assert stack.ask("/fleets/echo/x", Authorization=f"Bearer {MISTAKEN}").status == 401
    assert stack.ask(f"/fleets/echo/x?api_key={key}", Cookie=f"key={key}").status == 401
    return {
        "secret key": (stack.data / "secret_key").read_text().strip(),
        "one-time password": stack.one_time_password,
        "password": OWN_PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "session id of before": first,
        "session id": browser.cookie("sessionid"),
        "session id of another browser": again.cookie("sessionid"),
        "client key": key,
        "API token": api_token,
        "token of createtoken": stack.token,
        "mistaken key": MISTAKEN,
        "replica's token": REPLICA_TOKEN,
    }


def written(secret: str) -> set[bytes]:
    """The ways in which it might be stored, other than as it is."""
    raw = secret.encode()
    ways = {raw, raw.hex().encode(), quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode()}
    # Of base64 the part that is the same whatever stands before and after it.
    return ways | {base64.b64encode(raw[shift : len(raw) // 3 * 3])[:-4] for shift in range(3)}


def test_the_search_finds_what_is_there() -> None:
    for way in (b"a %s b", base64.b64encode(b"xy{'key': '%s'}" % OWN_PASSWORD.encode()), b"<%s>"):
        data = way % OWN_PASSWORD.encode() if b"%s" in way else way
        assert found_in({"here": data}, {"it": OWN_PASSWORD}) == ["it in here"]


def found_in(where: Mapping[str, bytes], secrets: Mapping[str, str]) -> list[str]:
    return [
        f"{name} in {place}"
        for name, secret in secrets.items()
        for place, data in where.items()
        if any(way in data for way in written(secret))
    ]


def test_nothing_in_the_data_folder_but_the_secret_keys_own_file(
    stack: Stack, secrets: Mapping[str, str]
) -> None:
    """Database with its log, log files, the proxy's copy of the table, sockets' folders."""
    until(lambda: any((stack.data / "proxy").rglob("*fleet*")), "the proxy has its copy", 30)
    files = [path for path in stack.data.rglob("*") if path.is_file()]
    where = {str(path.relative_to(stack.data)): path.read_bytes() for path in files}
    assert {"db.sqlite3", "secret_key"} <= set(where)
    assert any(name.startswith("logs/") for name in where)
    where.pop("secret_key")
    assert found_in(where, secrets) == []
    assert found_in({"what up has printed": stack.said.encode()}, secrets) == [
        "one-time password in what up has printed"
    ]


def test_what_is_on_the_disk_is_for_its_user_alone(stack: Stack, secrets: Mapping[str, str]) -> None:
    """Static files are for everybody, and yet in a folder that nobody else can enter."""
    public = stack.data / "static"
    kept = [path for path in stack.data.rglob("*") if public not in path.parents and not path.is_symlink()]
    assert len(kept) > 10
    assert [path for path in (stack.data, *kept) if path.stat().st_mode & 0o077] == []


def test_nothing_in_redis(stack: Stack, secrets: Mapping[str, str]) -> None:
    where: dict[str, bytes] = {}
    for number in range(3):
        with redis.Redis.from_url(f"unix://{socket_path(stack.data)}?db={number}") as client:
            for key in client.scan_iter(count=1000):
                where[f"{number} {key!r}"] = key + contents(client, key)
    assert len(where) > 5
    assert found_in(where, secrets) == []


def contents(client: "redis.Redis", key: bytes) -> bytes:
    ask = {
        b"string": lambda: client.get(key),
        b"hash": lambda: client.hgetall(key),
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: client.smembers(key),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"none": lambda: b"",
    }
    return repr(ask[client.type(key)]()).encode()


def test_nothing_in_a_backup(stack: Stack, secrets: Mapping[str, str], tmp_path: Path) -> None:
    file = tmp_path / "now.backup"
    command = [sys.executable, "manage.py", "backup", str(file)]
    subprocess.run(command, cwd=ROOT, env=stack.environment, check=True, capture_output=True)
    raw = file.read_bytes()
    where = {"the backup": raw}
    if raw.startswith(b"\x1f\x8b"):
        where["the backup, unpacked"] = gzip.GzipFile(fileobj=io.BytesIO(raw)).read()
    assert found_in(where, secrets) == []
    assert file.stat().st_mode & 0o077 == 0


def test_nothing_in_process_arguments(stack: Stack, secrets: Mapping[str, str]) -> None:
    pids = {stack.process.pid, *(one.pid for one in state_file.read(stack.data).running()), *stack.pids()}
    where = {f"arguments of {pid}": command_line(pid).encode() for pid in pids}
    assert len(where) >= 7
    assert found_in(where, secrets) == []


def test_nothing_in_what_it_answers(stack: Stack, secrets: Mapping[str, str]) -> None:
    """Every list and page of the API, the inner listeners, and errors about the secret itself."""
    where = {}
    paths = (
        "fleets",
        "fleets/echo",
        "fleets/echo/replicas",
        "fleets/echo/replicas/a",
        "client-keys",
        "tokens",
    )
    for path in (
        *paths,
        "audit?page_size=200",
        "events",
        "system",
        "live",
        "fleets/echo/live",
        "client-keys/live",
    ):
        where[path] = exchange(stack.port, "GET", f"/api/v1/{path}", None, stack.authorization).body
    for path in ("/status", "/metrics"):
        where[path] = exchange(stack.admin_port, "GET", path).body
        where[f"web {path}"] = exchange(stack.metrics_port, "GET", path).body
    wrong = {"name": "x", "url": "http://127.0.0.1:9", "credential": MISTAKEN}
    refused = exchange(stack.port, "POST", "/api/v1/fleets/echo/replicas", wrong, stack.authorization)
    assert refused.status == 400
    where["a token in the field of a reference"] = refused.body
    for header in (f"Bearer {MISTAKEN}", f"Token {MISTAKEN}", MISTAKEN):
        for port in (stack.port, stack.proxy_port):
            answer = exchange(port, "GET", "/api/v1/fleets", None, {"Authorization": header})
            assert answer.status == 401
            where[f"{header[:6]} at {port}"] = answer.body + repr(answer.headers).encode()
    assert found_in(where, secrets) == []
