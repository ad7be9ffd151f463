"""A client key's traffic in the conductor's frames, and the event of an episode at its limit."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from controlplane.models import Event
from controlplane.services import client_keys
from controlplane.telemetry import frames
from controlplane.telemetry.conductor import Conductor
from controlplane.telemetry.key_traffic import SETTLES_S
from controlplane.telemetry.notices import key_limits
from controlplane.telemetry.notices.key_limits import OVER_AFTER_S
from routing.contract.telemetry import KeyCounters
from tests.clock import Clock
from tests.controlplane.telemetry.reports import key, report, send
from tests.proxy_process import Proxy, until
from tests.routing.master.test_client_keys import ask

pytestmark = pytest.mark.django_db(transaction=True)
RPM, AT_ONCE, TPM = "requests_per_minute", "max_concurrency", "tokens_per_minute"


@pytest.fixture
def website(redis_client: "redis.Redis") -> int:
    """A key with limits; its number."""
    return client_keys.create({"name": "website", RPM: 60, AT_ONCE: 4, TPM: 10_000}, "test").row.pk


class Day:
    """One proxy worker's seconds, told to conductors."""

    def __init__(self, client: "redis.Redis", clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.sequence = 10

    def second(self, *conductors: Conductor, keys: tuple[KeyCounters, ...] = (), passes: float = 1.0) -> None:
        self.clock.now += passes
        self.sequence += 1
        send(self.client, report(sequence=self.sequence, keys=list(keys)))
        for each in conductors:
            each.tick()


@pytest.fixture
def day(redis_client: "redis.Redis", clock: Clock) -> Day:
    return Day(redis_client, clock)


def told() -> list[str]:
    return list(Event.objects.filter(kind=Event.Kind.LIMIT).order_by("id").values_list("text", flat=True))


def refused(number: int, times: int, limit: str = RPM) -> tuple[KeyCounters]:
    return (key(100 + times, id=str(number), limited=times, limited_by={limit: times}),)


def test_a_keys_traffic_is_in_the_frame_and_in_the_message(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], website: int, day: Day
) -> None:
    quiet = client_keys.create({"name": "quiet"}, "test").row.pk
    leader = conductor()
    day.second(leader)
    used = key(50, id=str(website), in_flight=4, tokens=800, limited=3, limited_by={AT_ONCE: 3})
    day.second(keys=(used, key(0, id=str(quiet)), key(5, id="999")))
    messages = dict(leader.tick())
    frame = msgspec.json.decode(redis_client.get(frames.CLIENT_KEYS_KEY), type=frames.ClientKeysFrame)
    assert msgspec.json.decode(messages[frames.CLIENT_KEYS_GROUP], type=frames.ClientKeysFrame) == frame
    (live,) = frame.keys
    assert (live.id, live.name, live.rps, live.limited_per_s) == (website, "website", 50.0, 3.0)
    assert (live.in_flight, live.requests, live.tokens, live.at_limit) == (4, 47, 800, [AT_ONCE])
    assert frame.workers == 1
    client_keys.revoke(website, "test")
    day.second(leader, keys=(used,))
    body = redis_client.get(frames.CLIENT_KEYS_KEY)
    assert msgspec.json.decode(body, type=frames.ClientKeysFrame).keys == []


def test_an_episode_at_a_limit_is_told_once(
    conductor: Callable[..., Conductor], website: int, day: Day
) -> None:
    leader = conductor()
    day.second(leader)
    day.second(leader, keys=refused(website, 0))
    assert told() == []
    first = "key website reached its limit of 60 requests per minute"
    for times in (1, 2, 40):
        day.second(leader, keys=refused(website, times))
        assert told() == [first]
    day.second(leader, keys=refused(website, 40), passes=OVER_AFTER_S - 2)
    day.second(leader, keys=refused(website, 41))
    day.second(leader, keys=refused(website, 42), passes=OVER_AFTER_S - 2)
    assert told() == [first], "it goes on"
    day.second(leader, keys=refused(website, 42), passes=OVER_AFTER_S)
    day.second(leader, keys=refused(website, 43))
    assert told() == [first, first]
    assert Event.objects.filter(kind=Event.Kind.LIMIT).latest("id").actor == "conductor"


def test_each_limit_has_its_own_words(conductor: Callable[..., Conductor], website: int, day: Day) -> None:
    leader = conductor()
    one = client_keys.create({"name": "one", AT_ONCE: 1}, "test").row.pk
    day.second(leader)
    each = {AT_ONCE: 1, TPM: 1}
    day.second(
        leader,
        keys=(
            key(9, id=str(website), limited=2, limited_by=each),
            key(9, id=str(one), limited=2, limited_by=each),
        ),
    )
    assert sorted(told()) == [
        "key one reached its limit of 1 request at one time",
        "key website reached its limit of 10,000 tokens per minute",
        "key website reached its limit of 4 requests at one time",
    ], "a limit that was lifted meanwhile is not told"


def test_who_leads_next_does_not_tell_it_again(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], website: int, day: Day
) -> None:
    one, two = conductor("one"), conductor("two")
    day.second(one, two)
    day.second(one, two, keys=refused(website, 1))
    assert len(told()) == 1
    one.end()
    day.second(two, keys=refused(website, 2))
    day.second(two, keys=refused(website, 3))
    assert len(told()) == 1
    assert 0 < redis_client.ttl(key_limits.EPISODES_KEY) <= OVER_AFTER_S + 1
    later = conductor("three")
    two.end()
    redis_client.hincrby(key_limits.EPISODES_KEY, f"{website} {RPM}", -int(OVER_AFTER_S) * 1000)
    day.second(later, keys=refused(website, 3))
    day.second(later, keys=refused(website, 4))
    assert len(told()) == 2, "what ended meanwhile is over"


def test_a_limit_that_is_changed_begins_anew(
    redis_client: "redis.Redis", conductor: Callable[..., Conductor], website: int, day: Day
) -> None:
    """What the former one refused, and workers tell a moment later, is not held against the new one."""
    leader = conductor()

    def at_limit() -> list[str]:
        body = redis_client.get(frames.CLIENT_KEYS_KEY)
        (live,) = msgspec.json.decode(body, type=frames.ClientKeysFrame).keys
        return live.at_limit

    day.second(leader)
    day.second(leader, keys=refused(website, 5))
    assert at_limit() == [RPM]
    client_keys.update(website, {RPM: 1000}, "test")
    day.second(leader, keys=refused(website, 9))
    day.second(leader, keys=refused(website, 12))
    assert at_limit() == []
    assert len(told()) == 1
    day.second(leader, keys=refused(website, 13), passes=SETTLES_S)
    assert at_limit() == [RPM]
    assert told()[1:] == ["key website reached its limit of 1,000 requests per minute"]
    client_keys.update(website, {AT_ONCE: 9}, "test")
    day.second(leader, keys=refused(website, 14))
    assert (at_limit(), len(told())) == ([RPM], 2), "another limit's change is none of this one's"


@pytest.fixture
def proxy(tmp_path: Path, redis_url: str) -> Iterator[Proxy]:
    running = Proxy(tmp_path, "--redis", redis_url, "--workers", "1", "--state-dir", str(tmp_path))
    yield running
    running.stop()


@pytest.mark.any_database
def test_what_a_real_proxy_counts_and_refuses_is_shown_and_told(
    redis_client: "redis.Redis", proxy: Proxy
) -> None:
    made = client_keys.create({"name": "website", RPM: 3}, "test")
    leader = Conductor(redis_client, "one")
    port = proxy.ready().port

    def seen() -> frames.ClientKeysFrame:
        leader.tick()
        body = redis_client.get(frames.CLIENT_KEYS_KEY)
        assert body is not None
        return msgspec.json.decode(body, type=frames.ClientKeysFrame)

    until(lambda: seen().workers == 1, "its first report")
    until(lambda: ask(port, made.key) != 401, "the proxy knows the key")
    assert [ask(port, made.key) for _ in range(4)][-2:] == [429, 429]
    until(lambda: seen().keys and told(), "a report of what was refused")
    (live,) = seen().keys
    assert (live.id, live.requests, live.in_flight, live.at_limit) == (made.row.pk, 3, 0, [RPM])
    assert told() == ["key website reached its limit of 3 requests per minute"]
