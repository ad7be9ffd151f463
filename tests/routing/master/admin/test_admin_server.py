"""The admin listener: what it answers, and to whom it does not."""

import http.client
import re
import socket
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import Proxy, Replica, fleet_file, until


def test_the_doors(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    for _ in range(6):
        assert running.get()[0] == 200

    assert running.admin("/livez") == (200, "alive\n")
    assert running.admin("/readyz?verbose") == (200, "ready\n")
    assert running.admin("/")[0] == 404
    assert running.admin("/livez", "DELETE")[0] == 405
    assert running.admin("/fleets/echo/replicas/a/drain")[0] == 405
    status, said = running.admin("/fleets/echo/replicas/z/drain", "POST")
    assert (status, said) == (404, "fleet echo has no replica 'z'; it has: a, b\n")
    status, said = running.admin("/fleets/nope/replicas/z/drain", "POST")
    assert (status, said) == (404, "no fleet 'nope'; there are: echo\n")

    content = running.status()
    assert content["ready"] is True
    assert [row["serving"] for row in content["workers"]] == [True, True]
    assert [row["eligible_in_workers"] for row in content["fleets"]["echo"]["replicas"]] == [2, 2]

    check_a_browser_is_refused(running)
    check_metrics(running)
    check_odd_requests(running)


def check_a_browser_is_refused(running: Proxy) -> None:
    drain = "/fleets/echo/replicas/a/drain"
    assert running.admin(drain, "POST", {"Origin": "http://evil.example"})[0] == 403
    assert running.admin("/status", "GET", {"Host": "evil.example"})[0] == 403
    assert running.status()["emergency_drains"] == []


def check_metrics(running: Proxy) -> None:
    def page() -> str:
        return running.admin("/metrics")[1]

    # Counted when they begin and when they end: a report may lie between the two.
    ended = 'switchyard_request_duration_seconds_bucket{fleet="echo",le="+Inf"} 6\n'
    until(lambda: ended in page(), "all requests are counted")
    text = page()
    assert 'switchyard_requests_total{fleet="echo"} 6\n' in text
    assert 'switchyard_worker_up{worker="1"} 1\n' in text
    picked = re.findall(r'^switchyard_replica_picked_total{fleet="echo",replica="[ab]"} (\d+)$', text, re.M)
    assert len(picked) == 2
    assert sum(map(int, picked)) == 6
    assert 'switchyard_table_version{fleet="echo"} 1\n' in text
    check_replica_states(running)
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(
        re.fullmatch(r'[a-z_]+({[a-z]+="[^"]*"(,[a-z]+="[^"]*")*})? [-+0-9.e]+', line) for line in samples
    )
    assert len(samples) == len({line.rpartition(" ")[0] for line in samples})
    families = re.findall(r"^# TYPE (\S+) ", text, re.M)
    assert len(families) == len(set(families))
    assert not any("replica=" in line for line in samples if "_bucket" in line)


def check_replica_states(running: Proxy) -> None:
    """One series a state, and exactly one of them is 1; an emergency drain shows at once."""

    def states(metric: str) -> dict[str, str]:
        text = running.admin("/metrics")[1]
        found = re.findall(rf'^switchyard_replica_{metric}{{fleet="echo",replica="a"(.*)}} (\d)$', text, re.M)
        return {label.removeprefix(",state=").strip('"'): value for label, value in found}

    assert states("health") == {"checking": "0", "ready": "1", "unready": "0", "down": "0"}
    assert states("admin_state") == {"active": "1", "draining": "0", "maintenance": "0"}
    assert states("eligible") == {"": "1"}
    running.admin("/fleets/echo/replicas/a/drain", "POST")
    assert states("admin_state") == {"active": "0", "draining": "1", "maintenance": "0"}
    assert states("eligible") == {"": "0"}
    running.admin("/fleets/echo/replicas/a/undrain", "POST")
    assert states("eligible") == {"": "1"}


def check_odd_requests(running: Proxy) -> None:
    for request, answer in (
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"HTTP/1.1 431 "),
        (b"GET //[ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"HTTP/1.1 404 "),
        (b"", b""),
    ):
        with socket.create_connection(("127.0.0.1", running.admin_port), timeout=10) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100).startswith(answer)


def test_no_admin_listener(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", "1", "--admin", "none")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    assert "admin" not in running.log
