"""A limit and a queue of several real workers, under more load than the replicas take."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.proxy_process import Proxy, Replica, fleet_file, until


class Counting(Replica):
    """Takes a while for each answer, and notes how many it had at once."""

    def __init__(self, name: str, takes_s: float) -> None:
        super().__init__(name)
        self.takes_s = takes_s
        self.now = self.most = 0
        self._lock = threading.Lock()

    def answer(self, handler: Any) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.takes_s)
        # Before the answer: the proxy gives the place away as soon as it has that.
        with self._lock:
            self.now -= 1
        super().answer(handler)


def ask_together(proxy: Proxy, clients: int, each: int) -> tuple[Counter[int], float]:
    """So many clients at once, each on a connection of its own: statuses, and the seconds it took."""
    statuses: list[int] = []

    def ask() -> None:
        client = proxy.client()
        for _ in range(each):
            client.request("GET", "/")
            answer = client.getresponse()
            answer.read()
            statuses.append(answer.status)
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(statuses), time.monotonic() - began


def test_two_workers_keep_one_limit_and_serve_one_queue(proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    slow, quick = Counting("slow", 0.06), Counting("quick", 0.02)
    policy = {"strategy": "least_connections", "slow_start_s": 0, "max_concurrency": 2}
    file = fleet_file(tmp_path / "fleets.yaml", [slow, quick], policy=policy)
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    statuses, took_s = ask_together(running, clients=24, each=5)
    assert statuses == {200: 120}
    assert (slow.most, quick.most) == (2, 2)
    # Both together serve 133 a second; a place to which nobody is called would stand empty for seconds.
    assert took_s < 8
    assert quick.served > slow.served
    slow.stop()
    quick.stop()


def test_a_killed_worker_gives_its_places_back(proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    replica = Counting("only", 0.5)
    policy = {"slow_start_s": 0, "max_concurrency": 2, "queue": {"timeout_s": 5}}
    file = fleet_file(tmp_path / "fleets.yaml", [replica], policy=policy)
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    replica.takes_s = 30.0
    holders = []
    while len(holders) < 2:
        client = running.client()
        client.request("GET", "/")
        holders.append(client)
    until(lambda: replica.now == 2, "both places are taken")
    replica.takes_s = 0.0
    for pid in running.workers():
        os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    until(lambda: len(running.workers()) == 2, "successors")
    assert running.get()[0] == 200
    assert time.monotonic() - began < 8
    for client in holders:
        client.close()


def test_who_waits_and_who_is_refused_stands_in_the_metrics(
    proxy: Callable[..., Proxy], tmp_path: Path, replicas: list[Replica]
) -> None:
    only = replicas[0]
    policy = {"slow_start_s": 0, "max_concurrency": 1, "queue": {"size": 1, "timeout_s": 30}}
    file = fleet_file(tmp_path / "fleets.yaml", [only], policy=policy)
    running = proxy("--fleets", str(file), "--workers", "1").ready()

    def says(sample: str, value: str) -> bool:
        return f'switchyard_{sample}{{fleet="echo"}} {value}\n' in running.admin("/metrics")[1]

    clients = [running.client() for _ in range(3)]
    clients[0].request("GET", "/stream")
    assert only.streaming.wait(10)
    clients[1].request("GET", "/")
    until(lambda: says("queue_waiting", "1"), "the second waits")
    assert says("queue_size", "1")
    assert not says("queue_oldest_wait_seconds", "0.0")
    clients[2].request("GET", "/")
    refused = clients[2].getresponse()
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) >= 1
    only.release.set()
    for client in clients[:2]:
        answer = client.getresponse()
        assert answer.status == 200
        answer.read()
    until(lambda: says("queue_waiting", "0"), "nobody waits")
    until(lambda: says("queue_wait_duration_seconds_count", "1"), "its wait is counted")
    assert says("queued_total", "1")
    assert says("queue_full_total", "1")
    assert says("queue_late_total", "0")
    for client in clients:
        client.close()


def test_who_waits_is_served_while_the_proxy_drains(proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    replica = Counting("only", 0.1)
    policy = {"slow_start_s": 0, "max_concurrency": 1, "queue": {"timeout_s": 10}}
    file = fleet_file(tmp_path / "fleets.yaml", [replica], policy=policy)
    running = proxy("--fleets", str(file), "--workers", "1", "--min-drain-seconds", "0").ready()
    clients = [running.client() for _ in range(5)]
    for client in clients:
        client.request("GET", "/")
    until(lambda: replica.now == 1, "one is served, four wait")
    running.signal()
    answers = [client.getresponse() for client in clients]
    assert [(one.status, one.headers["Connection"]) for one in answers[1:]] == [(200, "close")] * 4
    assert answers[0].status == 200
    for client in clients:
        client.close()
    assert running.exit_status() == 0
    replica.stop()


def test_a_limit_and_a_queue_outlive_a_rolling_restart(proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    """Old and new worker share them: no place is given twice, and who waits in the old one is served."""
    replica = Counting("only", 0.02)
    policy = {"slow_start_s": 0, "max_concurrency": 2, "queue": {"size": 64, "timeout_s": 10}}
    file = fleet_file(tmp_path / "fleets.yaml", [replica], policy=policy)
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    first = running.workers()
    running.signal(signal.SIGUSR1)
    statuses: Counter[int] = Counter()

    def all_replaced() -> bool:
        more, _ = ask_together(running, clients=12, each=4)
        statuses.update(more)
        return not set(running.workers()) & set(first)

    until(all_replaced, "the workers are replaced")
    assert set(statuses) == {200}
    assert replica.most == 2
    replica.stop()
