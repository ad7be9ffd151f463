"""Which fleets share a host, however it is written, and by the addresses that its names have."""

from random import Random
from time import process_time

import pytest

from routing.balancing.pool.shared_hosts import SharedHosts


def shares(one: str, other: str) -> bool:
    hosts = SharedHosts()
    hosts.take("a", [one])
    hosts.take("b", [other])
    assert hosts.is_shared("a") == hosts.is_shared("b")
    return hosts.is_shared("a")


SAME = [
    ("http://localhost:8000", "http://127.0.0.1:8000"),
    ("http://localhost:8000", "http://[::1]:8000"),
    ("http://localhost.:8000", "http://0.0.0.0:8000"),
    ("http://gpu.localhost:8000", "http://127.0.0.2:8000"),
    ("http://127.0.0.1:8000", "http://[::]:8000"),
    ("http://127.0.0.1:8000", "http://[::ffff:127.0.0.1]:8000"),
    ("http://10.0.0.5:8000", "http://[::ffff:10.0.0.5]:8000"),
    ("http://10.0.0.5:8000", "http://[::ffff:a00:5]:8000"),
    ("http://10.0.0.5:8000", "http://[64:ff9b::10.0.0.5]:8000"),
    ("http://gpu1:80", "http://gpu1"),
    ("https://gpu1", "http://gpu1:443"),
    ("http://GPU1:8000", "http://gpu1.:8000"),
    ("http://[2001:db8:0::1]:80", "http://[2001:DB8::1]"),
    ("http://gpu1:80/a", "http://gpu1:80/%61"),
]
OTHERS = [
    ("http://localhost:8000", "http://localhost:8001"),
    ("http://10.0.0.5:8000", "http://10.0.0.6:8000"),
    ("http://127.0.0.1:8000", "http://10.0.0.1:8000"),
    ("http://gpu1:8000", "http://gpu2:8000"),
    ("http://gpu1", "https://gpu1"),
    ("http://localhost:8000/a", "http://127.0.0.1:8000/b"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_forms_of_one_place(one: str, other: str) -> None:
    assert shares(one, other)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_two_places(one: str, other: str) -> None:
    assert not shares(one, other)


def test_names_by_their_addresses() -> None:
    hosts = SharedHosts()
    hosts.take("a", ["http://gpu1:8000", "http://gpu3:8000"])
    assert not hosts.names, "one fleet shares nothing"
    hosts.take("b", ["http://10.0.0.5:8000"])
    hosts.take("c", ["http://gpu2:8000"])
    assert set(hosts.names) == {"gpu1", "gpu2", "gpu3"}
    assert hosts.found("gpu1", ("10.0.0.9",)) == set(), "nothing has changed for anybody"
    assert hosts.found("gpu1", ("10.0.0.5", "fd00::5")) == {"a", "b"}
    assert hosts.found("gpu1", ("10.0.0.5", "fd00::5")) == set()
    assert hosts.found("gpu2", ("fd00::5",)) == {"a", "c"}
    assert all(hosts.is_shared(fleet) for fleet in "abc")
    # The name moves away, and back.
    assert hosts.found("gpu1", ("10.0.0.6",)) == {"a", "b", "c"}
    assert not any(hosts.is_shared(fleet) for fleet in "abc")
    hosts.found("gpu1", ("fd00::5",))
    hosts.found("gpu3", ("fd00::5",))
    hosts.found("gpu3", ("10.0.0.7",))
    assert hosts.is_shared("a"), "gpu1 is still there"
    hosts.take("a", ["http://gpu3:8000"])
    assert not hosts.is_shared("c")
    assert hosts.found("gpu1", ("fd00::5",)) == set(), "nobody has that name any more"
    hosts.take("a", ())
    hosts.take("c", ())
    assert not hosts._addresses
    assert not hosts._named


def test_a_name_of_this_machine() -> None:
    hosts = SharedHosts()
    hosts.take("a", ["http://box.corp:8000"])
    hosts.take("b", ["http://localhost:8000"])
    assert hosts.found("box.corp", ("127.0.1.1",)) == {"a", "b"}
    assert hosts.is_shared("b")


def test_moving_one_replica_leaves_the_others_place() -> None:
    hosts = SharedHosts()
    hosts.take("a", ["http://localhost:8000", "http://127.0.0.1:8000"])
    hosts.take("b", ["http://[::1]:8000"])
    hosts.take("a", ["http://localhost:8000"])
    assert hosts.is_shared("a")
    hosts.take("a", ["http://localhost:8001"])
    assert not hosts.is_shared("a")
    assert not hosts.is_shared("b")


def test_what_was_prepared_is_taken_at_once_and_only_if_it_is_that() -> None:
    hosts = SharedHosts()
    urls = [f"http://10.0.{number // 250}.{number % 250}:8000" for number in range(1000)]
    hosts.take("b", ["http://10.0.0.5:8000"])
    steps = list(hosts.prepare("a", urls))
    assert len(steps) > 3
    assert not hosts.is_shared("b"), "nothing is changed by that"
    assert hosts.take("a", urls) == {"a", "b"}
    assert hosts.is_shared("b")
    list(hosts.prepare("a", urls[6:]))
    assert hosts.take("a", urls[:5]) == {"a", "b"}, "another table came first"
    assert not hosts.is_shared("b")
    list(hosts.prepare("a", ["http://gpu1:8000"]))
    hosts.take("b", ["http://gpu1:8000"])
    hosts.found("gpu1", ("10.0.0.7",))
    hosts.take("a", ["http://10.0.0.7:8000"])
    assert hosts.is_shared("a")


def test_two_names_that_lead_to_one_place_hold_it_together() -> None:
    hosts = SharedHosts()
    hosts.take("a", ["http://gpu1:8000", "http://gpu2:8000"])
    hosts.take("b", ["http://10.0.0.5:8000"])
    hosts.found("gpu1", ("10.0.0.5",))
    hosts.found("gpu2", ("10.0.0.5",))
    hosts.found("gpu1", ("10.0.0.6",))
    assert hosts.is_shared("b")
    assert hosts.found("gpu2", ("10.0.0.6",)) == {"a", "b"}
    assert not hosts.is_shared("b")


def test_what_is_further_down_at_the_same_host() -> None:
    hosts = SharedHosts()
    hosts.take("root", ["http://gpu1:8000", "http://10.0.0.9:8000/x"])
    hosts.take("team", ["http://gpu1:8000/Team"])
    assert hosts.take("model", ["http://gpu1:8000/Team/%62;v=1%2F%2Fc/"]) == {"root", "team", "model"}
    hosts.take("other", ["http://gpu1:8000/Teams", "http://gpu1:8000"])
    assert hosts.further_down("root") == {b"/team", b"/team/b/c", b"/teams"}
    assert hosts.further_down("team") == {b"/b/c"}, "/Teams is not below /Team"
    assert hosts.further_down("model") == frozenset()
    assert hosts.further_down("other") == {b"/team", b"/team/b/c"}, "its own is none of another fleet"
    # Hosts are one by their addresses, and no longer.
    hosts.take("deep", ["http://gpu2:8000/x/deep"])
    assert hosts.found("gpu2", ("10.0.0.9",)) == {"root", "deep"}
    assert b"/deep" in hosts.further_down("root")
    hosts.found("gpu2", ("10.0.0.8",))
    for fleet in ("model", "team", "other"):
        hosts.take(fleet, ())
    assert hosts.further_down("root") == frozenset()
    assert not hosts.is_shared("root")


def test_a_prefix_that_is_no_text() -> None:
    hosts = SharedHosts()
    hosts.take("a", ["http://gpu1:8000"])
    hosts.take("b", ["http://gpu1:8000/%ff"])
    assert hosts.further_down("a") == {b"/\xff"}


def test_changes_tell_of_each_fleet_that_they_mean_something_to() -> None:
    random = Random(7)
    prefixes = ["", "/a", "/a/b", "/a/b/c", "/ab", "/d", "/d/e"]
    urls = [f"http://10.0.0.{host}{prefix}" for host in (1, 2) for prefix in prefixes]
    hosts, fleets = SharedHosts(), ["f", "g", "h", "i"]
    there: dict[str, list[str]] = {fleet: [] for fleet in fleets}
    known = {fleet: (False, frozenset[bytes]()) for fleet in fleets}
    for _ in range(2000):
        fleet = random.choice(fleets)
        there[fleet] = random.sample(urls, random.choice((0, 1, 1, 2, 3)))
        for touched in hosts.take(fleet, there[fleet]):
            known[touched] = (hosts.is_shared(touched), hosts.further_down(touched))
        assert known == {fleet: looked_through(fleet, there) for fleet in fleets}


def looked_through(fleet: str, there: dict[str, list[str]]) -> tuple[bool, frozenset[bytes]]:
    """Whether its host is shared, and what is further down, by looking at all pairs."""
    others = [url for other, urls in there.items() if other != fleet for url in urls]
    met = [
        theirs[len(own) :]
        for own in there[fleet]
        for theirs in others
        if theirs == own or theirs.startswith(f"{own}/")
    ]
    return bool(met), frozenset(rest.encode() for rest in met if rest)


def test_thousands_of_replicas_behind_one_gateway() -> None:
    """Each change is a matter of milliseconds, in which no request is served, and not of seconds."""
    hosts = SharedHosts()
    urls = {fleet: [f"http://gateway/{fleet}/{number}" for number in range(2000)] for fleet in "abcde"}
    for fleet in urls:
        hosts.take(fleet, urls[fleet])
    began = process_time()
    assert hosts.take("a", [*urls["a"], "http://gateway/a/new"]) == {"a"}
    assert not hosts.is_shared("a")
    assert process_time() - began < 0.5
