"""A replica whose certificate is not accepted is out after one request, and back soon after it is right."""

import asyncio
import time
from pathlib import Path

import pytest

from routing.balancing.outlier import ejection
from routing.contract.policy import Policy, Retries, Timeouts
from routing.contract.table import Tls
from tests.certificates import Authority
from tests.routing.proxy.rig import LIMIT_S, Replica, ReplicaConnection, Rig, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
POLICY = Policy(
    strategy="round_robin",
    slow_start_s=0,
    retries=Retries(budget_percent=0),
    timeouts=Timeouts(connect_s=LIMIT_S),
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


async def fleet_of(rig: Rig, authority: Authority, *names: str) -> list[Replica]:
    """Replicas with certificates for these names."""
    replicas = [await rig.replica(tls=authority.server(name)) for name in names]
    rig.fleet(*replicas, policy=POLICY, tls=Tls(ca=authority.reference))
    return replicas


@pytest.mark.parametrize("fault", ["issuer", "name"])
async def test_one_request_is_enough_and_it_is_back_once_the_certificate_is_right(
    rig: Rig, authority: Authority, tmp_path: Path, fault: str
) -> None:
    """No retry is charged, for nothing was sent; while it is wrong no other request is spent on it."""
    bad, *_ = await fleet_of(rig, authority, *["IP:127.0.0.1"] * 3)
    good, other = bad.tls, Authority(tmp_path, "other")
    await bad.stop()
    bad.tls = authority.server("DNS:other.test") if fault == "name" else other.server("IP:127.0.0.1")
    await bad.start()
    client = await rig.client()
    for _ in range(3):
        assert (await client.ask(POST)).status == 200
    replica = rig.table.fleets["f"].replicas[0]
    await until(lambda: replica.ejection.until)
    words = "is not for 127.0.0.1" if fault == "name" else "issuer is not trusted"
    assert f"127.0.0.1:{bad.port} is not verified: the certificate" in replica.ejection.reason
    assert words in replica.ejection.reason
    assert replica.ejection.cause == ejection.NOT_VERIFIED
    failed = replica.failed
    assert failed <= 2
    ends = time.monotonic() + 2.5
    while time.monotonic() < ends:
        assert (await client.ask(POST)).status == 200
        await asyncio.sleep(0.01)
    assert replica.failed == failed
    assert not bad.requests
    await bad.stop()
    bad.tls = good
    await bad.start()
    ends = time.monotonic() + LIMIT_S
    while not bad.requests:
        assert time.monotonic() < ends
        assert (await client.ask(POST)).status == 200
        await asyncio.sleep(0.01)
    assert not replica.ejection.until


async def test_a_handshake_that_breaks_off_is_one_failure(rig: Rig, authority: Authority) -> None:
    """A server that has too many connections does so."""
    busy, _ = await fleet_of(rig, authority, "IP:127.0.0.1", "IP:127.0.0.1")
    url = busy.url
    busy.tls, tls = None, busy.tls
    await busy.stop()

    def close(connection: ReplicaConnection, data: bytes) -> None:
        connection.tunnel = True
        connection.transport.close()

    busy.on_data = close
    await busy.start()
    busy.tls = tls
    assert busy.url == url
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    await until(lambda: len(busy.connections) >= 3)
    replica = rig.table.fleets["f"].replicas[0]
    assert replica.failed
    assert not replica.ejection.until
