"""What a proxy worker leaves in Redis, written as it writes it."""

from typing import Any

from routing.contract import redis_keys
from routing.contract.telemetry import Acknowledgement, encode_acknowledgement


def alive(client: Any, *names: str) -> None:
    for name in names:
        client.eval(redis_keys.REPORT, 2, redis_keys.WORKERS, redis_keys.REPORTS, name, b"{}")


def silent_for(client: Any, name: str, seconds: float) -> None:
    client.zadd(redis_keys.WORKERS, {name: client.time()[0] - seconds})


def acknowledge(client: Any, fleet: str, worker: str, applied: str, refused: str = "") -> None:
    ack = Acknowledgement(applied=applied, refused=refused)
    client.hset(redis_keys.fleet_acks_key(fleet), worker, encode_acknowledgement(ack))


def stored_snapshot(client: Any, fleet: str) -> dict[str, str]:
    return {
        key.decode(): value.decode() for key, value in client.hgetall(redis_keys.fleet_key(fleet)).items()
    }
