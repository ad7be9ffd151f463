"""Probes of replicas that have host names, while DNS does not answer for some of them."""

import asyncio
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from routing.contract.policy import Policy
from routing.contract.probe import Probe
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.http import name_resolver
from routing.master.standalone.prober import Prober
from tests.routing.proxy.rig import Replica, until

SILENT = [f"silent{number}.test" for number in range(16)]


class Dns:
    def __init__(self) -> None:
        self.knows = True
        self.failed = 0
        self.ends = threading.Event()

    def getaddrinfo(self, host: str, port: int | None, *_: object, **__: object) -> list[Any]:
        if host in SILENT:
            self.ends.wait()
        elif self.knows:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port or 0))]
        self.failed += 1
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    monkeypatch.setattr(name_resolver, "FRESH_S", 0.0)
    yield dns
    dns.ends.set()


async def test_silent_names_hold_up_no_probe_and_a_known_address_is_kept(dns: Dns) -> None:
    good = Replica("good")
    await good.start()
    specs = [ReplicaSpec(uid=name, name=name, url=f"http://{name}:{good.port}") for name in SILENT]
    specs.append(ReplicaSpec(uid="good", name="good", url=f"http://good.test:{good.port}"))
    probe = Probe(preset="http", path="/health", period_s=0.1, timeout_s=5.0, fall=1)
    snapshot = FleetSnapshot(
        epoch=1,
        version=1,
        revision=1,
        name="f",
        probe=probe,
        protocol="generic",
        policy=Policy(),
        replicas=specs,
    )
    prober = Prober(lambda: None, dict, random.Random(1))
    try:
        began = time.monotonic()
        prober.follow([snapshot])
        await until(lambda: prober.status("good").health == "ready")
        assert time.monotonic() - began < 5.0, "no probe of another had timed out"
        dns.knows = False
        probed = len(good.requests)
        await until(lambda: dns.failed >= 2 and len(good.requests) >= probed + 3)
        assert prober.status("good").health == "ready"
    finally:
        dns.ends.set()  # the loop's end would wait for threads of its own
    prober.stop()
    await asyncio.sleep(0)
    await good.stop()
