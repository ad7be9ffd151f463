"""Conductors as processes: elected, killed, followed, ended."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import redis
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings

from controlplane.services import fleets
from controlplane.telemetry import frames, heartbeat
from routing.contract import redis_keys
from tests.conftest import RedisServer

ROOT = Path(__file__).resolve().parents[2]

BUSY = 2.0
"""How much longer things may take than designed, on a machine that does something else as well."""


@contextmanager
def conductor() -> Iterator[subprocess.Popen[bytes]]:
    database = settings.DATABASES["default"]["NAME"]
    process = subprocess.Popen(
        [sys.executable, "manage.py", "conductor"],
        cwd=ROOT,
        env=os.environ | {"SWITCHYARD_DATABASE_URL": f"sqlite://{database}"},
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def until(what: Callable[[], object], limit_s: float) -> None:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < limit_s, "waited in vain"
        await asyncio.sleep(0.02)


def leaders(client: "redis.Redis") -> list[int]:
    """Process ids of the conductors that lead."""
    live = [each.beat for each in heartbeat.read(client) if each.age_s < heartbeat.LIVE_S]
    return [int(beat.name.rsplit("/", 1)[1]) for beat in live if beat.leads]


@pytest.mark.django_db(transaction=True)
async def test_election_takeover_repair_and_end(
    redis_server: RedisServer, redis_client: "redis.Redis"
) -> None:
    await sync_to_async(fleets.create)({"name": "digits", "protocol": "open-inference"}, "test")
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(frames.fleet_group("digits"), channel)

    with conductor() as one, conductor() as two:
        # Both live, one leads, and open pages get its frames.
        await until(lambda: len(heartbeat.read(redis_client)) == 2, 40)
        await until(lambda: len(leaders(redis_client)) == 1, 20)
        [leader] = leaders(redis_client)
        assert leader in (one.pid, two.pid)
        async with asyncio.timeout(10):
            message = await layer.receive(channel)
        assert message["type"] == "live.frame"
        assert msgspec.json.decode(message["data"], type=frames.FleetFrame).summary.name == "digits"

        # The leader dies without a word: the other one leads within 5 s.
        first, second = (one, two) if leader == one.pid else (two, one)
        first.kill()
        first.wait()
        redis_client.delete(heartbeat.CONDUCTORS)
        await until(lambda: leaders(redis_client) == [second.pid], 5.0 * BUSY)

        # Redis loses everything: the table is back within 5 s, and so are the frames.
        redis_client.flushall()
        back = (redis_keys.MANIFEST, redis_keys.fleet_key("digits"), frames.OVERVIEW_KEY)
        await until(lambda: redis_client.exists(*back) == len(back), 5.0 * BUSY)

        # It ends within 2 s, and another may lead at once.
        second.send_signal(signal.SIGTERM)
        await until(lambda: second.poll() is not None, 2.0 * BUSY)
        assert second.returncode == 0
        assert heartbeat.read(redis_client) == []
        assert redis_client.get("sy:conductor:leader") is None
    await layer.flush()
