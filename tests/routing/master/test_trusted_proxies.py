"""Proxies behind load balancers, as processes: whose word is taken, and chains and loops of Switchyards."""

import http.client
import json
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.contract.client_keys import new_key
from routing.master.options import BadOptions, parse
from routing.proxy.auth.key_guesses import PER_ADDRESS
from tests.proxy_process import LIMIT_S, Proxy, Replica, fleet_file, until

StartProxy = Callable[..., Proxy]


def started(proxy: StartProxy, tmp_path: Path, replicas: list[Replica], *flags: str) -> Proxy:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    log = ("--access-log", str(tmp_path / "access.log"), "--log-format", "json")
    return proxy("--fleets", str(file), "--workers", "1", *log, *flags).ready()


def clients(tmp_path: Path, count: int) -> list[str]:
    """Of the access log, once it has so many lines."""

    def lines() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
        return found if len(found) >= count else []

    return [line["client"] for line in until(lines, "the access log is written")]


def sent(port: int, data: bytes) -> bytes:
    """Everything that comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionResetError:
            pass
        return received


REQUEST = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n"


def test_nobody_is_believed_by_default(proxy: StartProxy, tmp_path: Path, replicas: list[Replica]) -> None:
    running = started(proxy, tmp_path, replicas)
    assert b" 200 " in sent(running.port, REQUEST + b"X-Forwarded-For: 198.51.100.7\r\n\r\n")
    assert clients(tmp_path, 1) == ["127.0.0.1"]


def test_a_trusted_proxys_clients_are_those_of_the_log(
    proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    running = started(proxy, tmp_path, replicas, "--trusted-proxies", "127.0.0.0/8,fd00::/8")
    sent(running.port, REQUEST + b"X-Forwarded-For: 6.6.6.6, 198.51.100.7, fd00::5\r\n\r\n")
    assert clients(tmp_path, 1) == ["198.51.100.7"]


VERSION_2 = b"\r\n\r\n\x00\r\nQUIT\n" + struct.pack("!BBH", 0x21, 0x11, 12)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n",
        VERSION_2 + bytes([198, 51, 100, 7, 127, 0, 0, 1]) + struct.pack("!HH", 4711, 80),
    ],
    ids=["v1", "v2"],
)
def test_the_proxy_protocol_says_who_the_client_is(
    header: bytes, proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    running = started(proxy, tmp_path, replicas, "--proxy-protocol")
    assert b" 200 " in sent(running.port, header + REQUEST + b"\r\n")
    assert clients(tmp_path, 1) == ["198.51.100.7"]
    # Byte by byte, which no load balancer does; and two requests behind one header.
    with socket.create_connection(("127.0.0.1", running.port), timeout=LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in header:
            connection.sendall(bytes([each]))
            time.sleep(0.001)
        connection.sendall(REQUEST.replace(b"close", b"keep-alive") + b"\r\n" + REQUEST + b"\r\n")
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    assert received.count(b"HTTP/1.1 200 ") == 2
    assert clients(tmp_path, 3) == ["198.51.100.7"] * 3


def test_without_a_proxy_protocol_header_the_connection_is_closed(
    proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    running = started(proxy, tmp_path, replicas, "--proxy-protocol")
    assert sent(running.port, REQUEST + b"\r\n") == b""
    assert sent(running.port, b"PROXY TCP4 x y 1 2\r\n" + REQUEST + b"\r\n") == b""
    assert b" 200 " in sent(running.port, b"PROXY UNKNOWN\r\n" + REQUEST + b"\r\n")
    assert clients(tmp_path, 1) == ["127.0.0.1"]


def test_a_proxy_protocol_header_is_believed_from_named_proxies_only(
    proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    running = started(proxy, tmp_path, replicas, "--proxy-protocol", "--trusted-proxies", "10.0.0.0/8")
    header = b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n"
    assert b" 200 " in sent(running.port, header + REQUEST + b"\r\n")
    assert clients(tmp_path, 1) == ["127.0.0.1"]


def test_thousands_of_wrong_keys_a_second_are_not_tried(
    proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    good = new_key()
    key_file = tmp_path / "key"
    key_file.write_text(good)
    file = tmp_path / "fleets.yaml"
    fleet_file(file, replicas)
    written = json.loads(file.read_text())
    written["client_keys"] = [{"name": "good", "key": f"file:{key_file}", "fleets": ["echo"]}]
    file.write_text(json.dumps(written))
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    statuses: list[int] = []
    begun = time.monotonic()
    while len(statuses) < 300:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=LIMIT_S)
        while len(statuses) < 300:
            connection.request("GET", "/", headers={"x-api-key": new_key()})
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            if response.getheader("Connection") == "close":
                break
        connection.close()
    took_s = time.monotonic() - begun
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= PER_ADDRESS + took_s + 1
    connection = running.client()
    connection.request("GET", "/", headers={"x-api-key": good})
    assert connection.getresponse().status == 200
    connection.close()
    assert "too many unknown client keys" in running.log


def via(proxy: Proxy) -> tuple[int, str]:
    connection = proxy.client()
    connection.request("GET", "/")
    response = connection.getresponse()
    response.read()
    found = response.status, response.getheader("Via") or ""
    connection.close()
    return found


def test_one_switchyard_behind_another_serves_and_a_loop_is_still_one(
    proxy: StartProxy, tmp_path: Path, replicas: list[Replica]
) -> None:
    behind = fleet_file(tmp_path / "behind.yaml", replicas)
    second = proxy("--fleets", str(behind), "--workers", "2").ready()
    allowed = {"SWITCHYARD_ALLOWED_ADDRESSES": "127.0.0.0/8"}
    # Of a fleet whose replica is the other Switchyard.
    front = tmp_path / "front.yaml"
    fleet_file(front, replicas[:1])
    written = json.loads(front.read_text())
    written["fleets"][0]["replicas"] = [{"name": "second", "url": f"http://127.0.0.1:{second.port}"}]
    front.write_text(json.dumps(written))
    first = proxy("--fleets", str(front), "--workers", "2", environment=allowed).ready()
    status, names = via(first)
    assert status == 200, names
    hops = names.split(", ")
    assert len(set(hops)) == 2
    assert all(hop.startswith("1.1 switchyard-") for hop in hops)
    assert not any(socket.gethostname() in hop for hop in hops)

    # And now the second one's replica is the first.
    written["fleets"][0]["replicas"] = [{"name": "first", "url": f"http://127.0.0.1:{first.port}"}]
    replacement = behind.with_suffix(".new")
    replacement.write_text(json.dumps(written))
    replacement.replace(behind)
    until(lambda: via(first)[0] == 508, "the loop is noticed")


@pytest.mark.parametrize(
    ("value", "words"),
    [("10.0.0.1/8", "write 10.0.0.0/8"), ("lb.example.com", "no network"), ("unix", "no Unix socket")],
)
def test_a_wrong_network_is_refused_with_the_cure(value: str, words: str) -> None:
    with pytest.raises(BadOptions, match=f"--trusted-proxies.*{words}"):
        parse(["--fleets", "x.yaml", "--trusted-proxies", value])
