"""What probes have read of replicas' load reaches the workers of a proxy through Redis, and their picks."""

import re
from collections.abc import Callable

from routing.contract.load_report import ReportedLoad, encode_report
from routing.contract.policy import Policy
from routing.contract.redis_keys import LOADS
from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until


def test_others_requests_at_a_replica_send_ours_elsewhere(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    table = snapshot(1, replicas, policy=Policy(slow_start_s=0, strategy="least_connections"))
    publisher.fleet(table)
    publisher.manifest(1)
    busy, free = table.replicas[0], table.replicas[1]

    def tell(running: int) -> None:
        seconds, microseconds = publisher.client.time()
        at_ms = seconds * 1000 + microseconds // 1000 - 300
        said = encode_report(ReportedLoad(running=running, waiting=1, kv_share=0.5))
        publisher.client.hset(LOADS, busy.uid, b"%d " % at_ms + said)
        publisher.client.hset(LOADS, free.uid, b"not one")

    def sample(name: str, replica: str) -> float | None:
        page = running.admin("/metrics")[1]
        found = re.search(
            rf'^switchyard_replica_{name}{{fleet="echo",replica="{replica}"}} (\S+)$', page, re.M
        )
        return float(found[1]) if found else None

    running = proxy("--redis", redis_url, "--workers", "2")

    def told() -> bool:
        tell(6)
        return sample("elsewhere", busy.name) == 7

    until(told, "both that it reports and what it had before are known")
    assert sample("elsewhere", free.name) == 0
    figures = {name: sample(f"reported_{name}", busy.name) for name in ("running", "waiting", "kv_share")}
    assert figures == {"running": 6, "waiting": 1, "kv_share": 0.5}
    assert sample("reported_running", free.name) is None
    age = sample("reported_age_seconds", busy.name)
    assert age is not None
    assert 0.2 <= age < 5

    def avoided() -> bool:
        before = replicas[0].served
        assert [running.get()[0] for _ in range(20)] == [200] * 20
        return replicas[0].served == before

    until(lambda: told() and len(running.workers()) == 2 and avoided(), "both workers send elsewhere")
    assert running.replicas("echo")[busy.name]["eligible_in_workers"] == 2
