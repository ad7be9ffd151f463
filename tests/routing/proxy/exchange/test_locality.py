"""What a client's own time limit means where replicas are at several sites."""

import asyncio
import time

from routing.contract.policy import Locality, Policy
from tests.routing.proxy.rig import Answer, Replica, ReplicaConnection, Rig, Seen, answer_ok, until


async def two_sites(rig: Rig, policy: Policy, here_s: float, there_s: float) -> tuple[Replica, Replica]:
    """Replicas here and elsewhere, and how long they are known to take for a request."""
    here, there = await rig.replica("here"), await rig.replica("there")
    rig.table.site = "east"
    places = {"here": {"site": "east"}, "there": {"site": "west"}}
    rig.fleet(here, there, policy=policy, on_devices=places)
    pool, now = rig.table.fleets["f"], time.monotonic()
    for replica, seconds in zip(pool.replicas, (here_s, there_s), strict=True):
        for _ in range(50):
            pool.speed.learn(replica, seconds, 1.0, now)
    return here, there


async def ask(rig: Rig, limit_ms: int) -> Answer:
    client = await rig.client()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Timeout-Ms: %d\r\n\r\n" % limit_ms)
    return await client.answer(limit_s=5)


async def test_who_cannot_wait_so_long_is_served_elsewhere(rig: Rig) -> None:
    here, there = await two_sites(rig, Policy(), 3.0, 1.0)
    assert (await ask(rig, 2000)).status == 200
    assert (len(here.requests), len(there.requests)) == (0, 1)
    assert (await ask(rig, 20_000)).status == 200
    assert (len(here.requests), len(there.requests)) == (1, 1)


async def test_who_waits_here_for_a_place_goes_by_its_limit_too(rig: Rig) -> None:
    """Elsewhere it would be too late, so it waits, and has the place that becomes free."""
    policy = Policy(max_concurrency=1, locality=Locality(spill_above=1.0))
    here, there = await two_sites(rig, policy, 0.1, 60.0)
    enough = asyncio.Event()

    async def hold(connection: ReplicaConnection, seen: Seen) -> None:
        await enough.wait()
        await answer_ok(connection, seen)

    here.script = hold
    first = asyncio.ensure_future(ask(rig, 9000))
    await until(lambda: here.requests)
    second = asyncio.ensure_future(ask(rig, 9000))
    await until(lambda: rig.table.fleets["f"].admission.has_waiters)
    enough.set()
    assert [(await first).status, (await second).status] == [200, 200]
    assert (len(here.requests), len(there.requests)) == (2, 0)
