"""The example fleets as a start finds them: registered once, without the health of earlier processes."""

import pytest

from controlplane.models import Replica, ReplicaHealth
from controlplane.services import fleets, health
from controlplane.supervision import example_fleets
from controlplane.supervision.options import UpOptions
from tests.conftest import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
CHECKING, READY = ReplicaHealth.State.CHECKING, ReplicaHealth.State.READY


@pytest.mark.parametrize("is_away", [False, True], ids=["with Redis", "while Redis is away"])
def test_what_earlier_processes_were_is_forgotten(redis_server: RedisServer, is_away: bool) -> None:
    options = UpOptions()
    assert example_fleets.register(options) == ["tiny-llm", "digits"]
    rows = Replica.objects.select_related("health")
    health.record_transitions(health.Transition(row.pk, CHECKING, READY, "200 OK", True) for row in rows)
    if is_away:
        redis_server.stop()
    assert example_fleets.register(options) == []
    example_fleets.forget_health(options)
    assert {row.health.state for row in rows.all()} == {CHECKING}


def test_a_fleet_at_the_port_of_an_example_does_not_stop_the_start(redis_server: RedisServer) -> None:
    """Nobody is there to confirm that they share it."""
    quick = {"name": "a", "url": "http://localhost:9101"}
    fleets.create({"name": "own", "protocol": "openai", "expose": "all", "replicas": [quick]}, "tests")
    assert example_fleets.register(UpOptions()) == ["tiny-llm", "digits"]
