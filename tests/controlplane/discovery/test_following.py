"""Steps of following a source, on a real database and Redis: what happens to rows, timeline and status."""

from collections.abc import Callable

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.discovery import changes, last_lists
from controlplane.discovery.changes import NotFollowing
from controlplane.discovery.following import Answer
from controlplane.discovery.listing import Listing
from controlplane.models import Event, Fleet, Replica
from controlplane.services import hardware, replicas, sources
from tests.controlplane.discovery.conftest import Followed, entry, listing

pytestmark = pytest.mark.django_db(transaction=True)


def texts() -> list[str]:
    return list(Event.objects.order_by("pk").values_list("text", flat=True))


def serve(followed: Followed, *names: str) -> None:
    followed.step(listing(*names))
    followed.probed("ready", *names)


def test_replicas_come_change_and_go_as_the_sources_doing(followed: Followed) -> None:
    serve(followed, "a", "b", "c")
    edited = Fleet.objects.get(name="llm").edit_version
    row = Replica.objects.get(name="a")
    assert row.owner.source == followed.source
    followed.step(Listing({"a": entry("a", site="east"), "b": entry("b"), "c": entry("c")}))
    assert Replica.objects.get(name="a").site == "east"
    for _ in range(2):
        followed.step(listing("a", "b"))
    assert followed.states == {"a": "active", "b": "active", "c": "draining"}
    followed.all_workers_idle()
    followed.step(listing("a", "b"))
    assert set(followed.states) == {"a", "b"}
    assert [text for text in texts() if text.startswith("source pods")] == [
        *(f"source pods registered replica {name} at {entry(name).url}" for name in "abc"),
        "source pods changed a: site: not set → east",
        "source pods changed a: site: east → not set",
        "source pods began draining c",
        f"source pods removed replica c ({entry('c').url})",
    ]
    assert Fleet.objects.get(name="llm").edit_version == edited, "people's ETags stay as they are"


def test_what_people_made_of_a_replica_stays(followed: Followed) -> None:
    serve(followed, "a", "b")
    replicas.update("llm", "a", {"weight": 3.0}, "anna")
    replicas.update("llm", "b", {"admin_state": "maintenance"}, "anna")
    followed.step(listing("b", leaving=frozenset({"b"})))
    followed.step(listing("a", "b"))
    assert followed.states == {"a": "active", "b": "maintenance"}
    assert Replica.objects.get(name="a").weight == 3.0


def test_one_that_is_listed_again_is_active_again(followed: Followed) -> None:
    serve(followed, "a", "b", "c")
    for _ in range(2):
        followed.step(listing("a", "b"))
    assert followed.states["c"] == "draining"
    followed.step(listing("a", "b", "c"))
    assert followed.states["c"] == "active"
    assert Replica.objects.get(name="c").owner.drained_at is None


def test_names_of_others_are_left_alone_and_told(followed: Followed, redis_client: "redis.Redis") -> None:
    replicas.register("llm", {"name": "a", "url": "http://10.0.0.9:1"}, "anna")
    followed.step(listing("a", "b"))
    assert Replica.objects.get(name="a").url == "http://10.0.0.9:1"
    assert "1 that it lists have names of others" in followed.status.reason
    last = last_lists.read(redis_client, [str(followed.source.uid)])[str(followed.source.uid)]
    assert (last.left_alone, last.entries) == (["a"], 2)


def test_one_wrong_replica_keeps_no_other_out(followed: Followed) -> None:
    followed.step(Listing({"a": entry("a", hardware="h100"), "b": entry("b")}))
    assert set(followed.states) == {"b"}
    assert 'a is left out: hardware: there is no hardware class "h100"' in followed.status.reason


def test_what_was_refused_names_no_fleet_of_another_team(
    followed: Followed, make_fleet: Callable[..., str]
) -> None:
    """Whoever may read the source reads why."""
    theirs = Fleet.objects.get(name=make_fleet("theirs"))
    Replica.objects.create(fleet=theirs, name="x", url=entry("a").url)
    Fleet.objects.filter(name="llm").update(labels={"team": "search"}, expose="all")
    followed.step(listing("a"))
    assert not followed.states
    assert "a is left out: Clients of a fleet reach another fleet's server" in followed.status.reason
    assert "theirs" not in followed.status.reason


def test_what_does_not_fit_into_one_transaction_goes_on_in_the_next(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LONGEST_S", 0.0)
    names = [f"r{number}" for number in range(6)]
    wanted = {name: entry(name) for name in names} | {"r3": entry("r3", hardware="h100")}
    followed.step(Listing(wanted))
    assert set(followed.states) == set(names) - {"r3"}


def test_what_was_refused_is_not_tried_at_every_list(followed: Followed) -> None:
    wrong = Listing({"a": entry("a", hardware="h100")})
    followed.step(wrong)
    with CaptureQueriesContext(connection) as queries:
        followed.step(wrong)
    assert not [query for query in queries if "INSERT" in query["sql"] or "UPDATE" in query["sql"]]
    hardware.create({"name": "h100"}, "anna")
    followed.step(wrong, after_s=30.0)
    assert set(followed.states) == {"a"}


def test_a_source_that_is_away_freezes_and_says_so_once_it_lasts(followed: Followed) -> None:
    serve(followed, "a", "b")
    followed.probed("down", "a", "b")
    for _ in range(30):
        followed.step("there is no file llm.yaml")
    assert followed.states == {"a": "active", "b": "active"}
    status = followed.status
    assert (status.state, status.reason) == (
        "failing",
        "there is no file llm.yaml; its 2 replicas stay as they are",
    )
    assert (followed.time() - status.frozen_since).total_seconds() == pytest.approx(29, abs=1)
    followed.step(listing("a", "b"))
    assert (followed.status.state, followed.status.frozen_since) == ("followed", None)
    assert texts()[-2:] == [
        "source pods: there is no file llm.yaml; its 2 replicas stay as they are",
        "source pods is followed again",
    ]
    for what in ("it is gone", listing("a", "b")):
        followed.step(what)
    assert texts()[-1] == "source pods is followed again", "a blink is not on the timeline"


def test_a_wrong_name_is_said_after_the_first_try(followed: Followed) -> None:
    followed.step(listing(note="there is no name x in DNS"))
    status = followed.status
    assert (status.state, status.reason, status.frozen_since) == (
        "failing",
        "there is no name x in DNS",
        None,
    )
    serve(followed, "a")
    followed.step(listing(note="there is no name x in DNS"))
    assert followed.status.state == "frozen"
    assert followed.status.reason.startswith("there is no name x in DNS; it lists nothing: ")


def test_a_suspicious_list_freezes_and_says_how_old_they_are(followed: Followed) -> None:
    serve(followed, "a", "b", "c")
    for _ in range(20):
        followed.step(listing("a"))
    assert set(followed.states) == {"a", "b", "c"}
    assert followed.status.state == "frozen"
    assert "it lists 1 only: the others of its 3 replicas stay" in followed.status.reason
    missing = Replica.objects.get(name="b").owner.missing_since
    assert (followed.time() - missing).total_seconds() == pytest.approx(19, abs=1.5)
    followed.probed("down", "b", "c")
    for _ in range(2):
        followed.step(listing("a"))
    assert set(followed.states) == {"a"}


def test_a_new_process_goes_on_where_the_old_one_was_and_stops_it(followed: Followed) -> None:
    serve(followed, "a", "b")
    old, followed.following = followed.following, followed.another()
    followed.step(listing("a", "b"))
    followed.step(listing("b", leaving=frozenset({"a"})))
    assert followed.states == {"a": "draining", "b": "active"}
    with pytest.raises(NotFollowing):
        old.step(Answer(listing("a", "b", "c")))
    assert set(followed.states) == {"a", "b"}


def test_a_deleted_source_leaves_its_replicas_to_people(followed: Followed) -> None:
    serve(followed, "a")
    sources.delete("llm", "pods", "anna")
    with pytest.raises(NotFollowing):
        followed.step(listing("b"))
    assert not hasattr(Replica.objects.get(name="a"), "owner")
    replicas.delete("llm", "a", "anna")


def test_a_source_touches_no_replica_of_another_source(
    make_followed: Callable[..., Followed], redis_client: "redis.Redis"
) -> None:
    first = make_followed()
    serve(first, "a")
    sources.create("llm", {"name": "zone", "file": {"path": "other.yaml"}}, "anna")
    second = Followed(sources.source_named(first.source.fleet, "zone"), redis_client)
    for _ in range(3):
        second.step(listing("a", "b"))
    assert Replica.objects.get(name="a").owner.source.name == "pods"
    for _ in range(3):
        second.step(listing("b"))
    assert first.states == {"a": "active", "b": "active"}


def test_a_list_from_which_nothing_follows_costs_one_query(followed: Followed) -> None:
    same = listing("a", "b")
    followed.step(same)
    followed.probed("ready", "a", "b")
    for _ in range(2):
        followed.step(same)
    with CaptureQueriesContext(connection) as queries:
        followed.step(same)
    assert len(queries) == 1
