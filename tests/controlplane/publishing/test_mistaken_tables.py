"""What no control plane can have written into Redis is replaced by what the database says."""

from typing import Any

import pytest

from controlplane.models import Event, TableState
from controlplane.publishing import epochs, publisher
from controlplane.publishing.installation import NotOurRedis
from controlplane.services import policies
from routing.contract import redis_keys
from routing.contract.table import Manifest, decode_manifest, decode_snapshot, encode

ABSURD = 2**63 - 1


def put(client: Any, key: str, epoch: Any, version: Any) -> None:
    body = encode(Manifest(epoch=ABSURD, version=1))
    client.hset(key, mapping={"epoch": epoch, "version": version, "body": body})
    client.publish(redis_keys.CHANGES_CHANNEL, "*")


@pytest.mark.parametrize("key", [redis_keys.MANIFEST, redis_keys.fleet_key("llm")])
@pytest.mark.parametrize(
    ("epoch", "version"), [(ABSURD, 1), (1, ABSURD), ("nan", 1), ("many", 1), (-5, 1), ("1.5", "2"), (1, "")]
)
def test_it_is_replaced_and_told(llm: str, redis_client: Any, key: str, epoch: Any, version: Any) -> None:
    before = redis_client.hgetall(key)
    put(redis_client, key, epoch, version)
    assert publisher.publish_all() == 1
    assert redis_client.hgetall(key) == before
    assert TableState.objects.get().epoch == 1
    said = Event.objects.get(kind="system").text
    assert (
        said
        == f"Redis held {key} at version {epoch}:{version}, which no control plane writes. It was replaced."
    )
    assert publisher.publish_all() == 0


def test_a_key_of_another_type_is_replaced(llm: str, redis_client: Any) -> None:
    redis_client.delete(redis_keys.MANIFEST)
    redis_client.set(redis_keys.MANIFEST, "nothing")
    assert publisher.publish_all() == 1
    assert list(decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body")).fleets) == ["llm"]


def test_changes_go_on_afterwards(llm: str, redis_client: Any) -> None:
    """As it was: the API said that it was published, and no proxy ever applied it."""
    put(redis_client, redis_keys.MANIFEST, ABSURD, 1)
    put(redis_client, redis_keys.fleet_key("llm"), ABSURD, 1)
    policies.change("llm", {"slow_start_s": 3}, "anna")
    publisher.publish_all()
    redis_client.delete(redis_keys.MANIFEST)
    assert policies.change("llm", {"slow_start_s": 4}, "anna").published
    assert publisher.publish_all() == 1
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert (snapshot.epoch, snapshot.version, snapshot.policy.slow_start_s) == (1, 3, 4)


def test_it_is_not_a_reason_for_a_later_epoch(llm: str, redis_client: Any) -> None:
    assert epochs.newest_in_redis() == 1
    for epoch in (ABSURD, "many", -1):
        put(redis_client, redis_keys.MANIFEST, epoch, 1)
        assert epochs.newest_in_redis() == 0


def test_that_of_another_installation_is_left_alone(llm: str, redis_client: Any) -> None:
    put(redis_client, redis_keys.MANIFEST, ABSURD, 1)
    TableState.objects.update(installation="another", instance="another")
    with pytest.raises(NotOurRedis):
        publisher.publish_all()
    assert redis_client.hget(redis_keys.MANIFEST, "epoch") == str(ABSURD).encode()
    assert not Event.objects.filter(kind="system").exists()
