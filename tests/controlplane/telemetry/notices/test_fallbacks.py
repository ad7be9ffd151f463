"""That a fleet falls back is told once, and so is its end."""

from collections.abc import Callable

import pytest
import redis

from controlplane.models import Event
from controlplane.telemetry.conductor import Conductor
from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.notices import fallbacks
from controlplane.telemetry.notices.fallbacks import LEAST, OVER_AFTER_S
from tests.clock import Clock
from tests.controlplane.telemetry.reports import fleet, report, send

pytestmark = pytest.mark.django_db(transaction=True)
BEGUN = "large falls back to small: it cannot serve all of its requests"
OVER = "large serves its requests itself again"


class Day:
    """One proxy worker's seconds, told to conductors."""

    def __init__(self, client: "redis.Redis", clock: Clock) -> None:
        self.client, self.clock, self.sequence = client, clock, 10

    def second(self, *conductors: Conductor, fell: int = 0, passes: float = 1.0) -> None:
        """``fell``: to another fleet, since the worker began."""
        self.clock.now += passes
        self.sequence += 1
        counted = fleet(1000, name="large", fallbacks={"small": {"no_place": fell}})
        send(self.client, report(sequence=self.sequence, fleets=[counted]))
        for each in conductors:
            each.tick()


@pytest.fixture
def day(redis_client: "redis.Redis", clock: Clock, make_fleet: Callable[..., str]) -> Day:
    make_fleet("large")
    make_fleet("small")
    return Day(redis_client, clock)


def told() -> list[str]:
    events = Event.objects.filter(kind=Event.Kind.HEALTH, fleet_name="large")
    return list(events.order_by("id").values_list("text", flat=True))


def test_its_begin_and_its_end_are_told_once(conductor: Callable[..., Conductor], day: Day) -> None:
    leader = conductor()
    day.second(leader)
    day.second(leader, fell=LEAST - 1)
    assert told() == [], "a few are no news"
    day.second(leader, fell=LEAST)
    day.second(leader, fell=LEAST + 40)
    day.second(leader, fell=LEAST + 40, passes=WINDOW_S - 1)
    assert told() == [BEGUN]
    day.second(leader, fell=LEAST + 41, passes=OVER_AFTER_S - 1)
    day.second(leader, fell=LEAST + 41, passes=OVER_AFTER_S - 1)
    assert told() == [BEGUN], "it goes on"
    day.second(leader, fell=LEAST + 41, passes=2.0)
    assert len(told()) == 2
    assert told()[1].startswith(f"{OVER}; it fell back for ")
    day.second(leader, fell=LEAST + 41)
    assert len(told()) == 2


def test_who_leads_next_does_not_tell_it_again(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], day: Day
) -> None:
    one, two = conductor("one"), conductor("two")
    day.second(one, two)
    day.second(one, two, fell=LEAST)
    assert told() == [BEGUN]
    one.end()
    day.second(two, fell=LEAST + 1)
    day.second(two, fell=LEAST + 2)
    assert told() == [BEGUN]
    day.second(two, fell=LEAST + 2, passes=WINDOW_S)
    day.second(two, fell=LEAST + 2, passes=OVER_AFTER_S)
    assert told() == [BEGUN, OVER]
    assert not redis_client.exists(fallbacks.EPISODES_KEY)
