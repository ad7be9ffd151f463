"""Writers of one process take turns in the order in which they came, and nobody waits for ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection

from controlplane.datastores import database_away, write_turns
from controlplane.datastores.write_turns import FairLock
from controlplane.models import Event
from controlplane.services.unit_of_work import record_event


def test_turns_are_in_the_order_of_arrival() -> None:
    lock, order = FairLock(), list[int]()
    assert lock.acquire(0)

    def take(number: int) -> None:
        assert lock.acquire(10)
        order.append(number)
        lock.release()

    with ThreadPoolExecutor(10) as pool:
        for number in range(10):
            pool.submit(take, number)
            until = time.monotonic() + 10
            while len(lock._waiting) <= number:
                assert time.monotonic() < until
                time.sleep(0.001)
        lock.release()
    assert order == list(range(10))
    assert lock.acquire(0)


def test_whoever_gave_up_is_not_handed_the_lock() -> None:
    lock = FairLock()
    assert lock.acquire(0)
    assert not lock.acquire(0.01)
    lock.release()
    assert lock.acquire(0)


@pytest.mark.django_db(transaction=True)
def test_a_turn_that_does_not_come_is_said_as_a_busy_database(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has a queue of its own")
    monkeypatch.setattr(write_turns, "SQLITE_TIMEOUT_S", 0.01)
    with write_turns.write_turn():
        with pytest.raises(OperationalError) as raised:
            record_event(Event.Kind.SYSTEM, "x")
        assert "busy with another change" in str(database_away.sentence(raised.value))
    record_event(Event.Kind.SYSTEM, "x")


@pytest.mark.django_db(transaction=True)
def test_many_writers_all_get_their_turn_and_leave_it(redis_server: object) -> None:
    together = threading.Barrier(20)

    def write(number: int) -> None:
        together.wait(10)
        try:
            record_event(Event.Kind.SYSTEM, f"event {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(write, range(20)))
    assert Event.objects.count() == 20
    assert not write_turns._turns._is_held
