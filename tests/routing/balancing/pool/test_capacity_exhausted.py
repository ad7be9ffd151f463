"""More replicas than the shared counts have room for: all serve, and looking for room costs little."""

import pytest

from routing.balancing.pool.pool import Attempt, Pool
from routing.shared.shm_counters import CapacityExhausted, SharedCounters

ROOM = 8
FEW = 4
"""One for a replica; the fleet has other keys that find no room."""


@pytest.fixture
def shared():
    parent = SharedCounters.create(workers=2, replicas=ROOM)
    found = SharedCounters.attach(parent.fd, 0)
    yield found
    found.close()
    parent.close()


@pytest.fixture
def in_vain(shared, monkeypatch):
    """Claims for which there was no room, each of which looks at every slot."""
    told = []
    claim = shared.claim

    def claimed(key):
        try:
            return claim(key)
        except CapacityExhausted:
            told.append(key)
            raise

    monkeypatch.setattr(shared, "claim", claimed)
    return told


def test_room_is_looked_for_once_a_turn_not_once_a_replica(shared, in_vain, make_snapshot):
    pool = Pool(make_snapshot(50), shared)
    assert sum(1 for replica in pool.replicas if replica.cells is not None) <= ROOM
    assert len(in_vain) <= FEW
    in_vain.clear()
    for turn in range(10):
        pool.refresh(1.0 + turn)
    assert len(in_vain) <= 10 * FEW
    served = set()
    for _ in range(2000):
        found = pool.begin(1.0, 20.0)
        assert isinstance(found, Attempt)
        served.add(found.replica.name)
    assert len(served) == 50


def test_room_that_is_free_again_is_taken(shared, in_vain, make_snapshot):
    first = Pool(make_snapshot(50), shared)
    elsewhere = [{"url": f"http://127.0.0.2:{9000 + number}"} for number in range(3)]
    other = Pool(make_snapshot(elsewhere), shared)
    assert all(replica.cells is None for replica in other.replicas)
    first.close()
    other.refresh(2.0)
    assert all(replica.cells is not None for replica in other.replicas)
