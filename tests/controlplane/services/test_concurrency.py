"""Two writers at once: nobody's change is lost, nobody's version is used twice."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from controlplane.models import Fleet, PolicyRevision
from controlplane.publishing import publisher
from controlplane.services import accelerators, device_memory, fleets, hardware, policies, replicas
from controlplane.services.errors import Conflict, Invalid, PreconditionFailed
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import unit_of_work
from routing.contract import redis_keys
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Runs each in its own thread, all let go together; results or exceptions."""
    gate = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Callable[[], Any]) -> None:
        gate.wait()
        try:
            results[index] = call()
        except Exception as error:
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_every_one_of_eight_changes_gets_its_own_version(llm: str, redis_client: Any) -> None:
    changes = [
        lambda seconds=seconds: policies.change("llm", {"slow_start_s": seconds}, "w")
        for seconds in range(1, 9)
    ]
    results = at_once(*changes)
    versions = sorted(result.version.number for result in results)
    assert versions == list(range(2, 10))
    assert PolicyRevision.objects.filter(fleet__name="llm").count() == 9
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert snapshot == publisher.snapshot_of(Fleet.objects.get())


def test_of_two_with_the_same_etag_one_wins(llm: str) -> None:
    version = Fleet.objects.get().edit_version
    results = at_once(
        lambda: policies.change("llm", {"slow_start_s": 1}, "w", if_version=version),
        lambda: policies.change("llm", {"slow_start_s": 2}, "w", if_version=version),
    )
    refused = [result for result in results if isinstance(result, PreconditionFailed)]
    assert len(refused) == 1
    assert Fleet.objects.get().revision == 2


def test_a_write_from_outdated_values_is_refused(llm: str) -> None:
    with unit_of_work("w") as write:
        fleet = fleet_named("llm")
        Fleet.objects.filter(pk=fleet.pk).update(edit_version=7)
        with pytest.raises(Conflict, match="changed by somebody else"):
            write.save_fleet(fleet, served_model="x")
        replica = fleet.replicas.get(name="a")
        replica.edit_version = 99
        with pytest.raises(Conflict):
            write.save_replica(replica, weight=3.0)


def test_probes_and_operators_do_not_hinder_each_other(api: Api, llm: str) -> None:
    from controlplane.services import health

    pk = Fleet.objects.get().replicas.get(name="a").pk
    results = at_once(
        lambda: health.record_transition(pk, "checking", "ready", "200", True),
        lambda: replicas.update("llm", "a", {"admin_state": "draining"}, "w"),
        lambda: policies.change("llm", {"strategy": "round_robin"}, "w"),
    )
    assert not [result for result in results if isinstance(result, Exception)]
    assert Fleet.objects.get().table_version == 4
    body = api.get("/fleets/llm/replicas/a").json()
    assert (body["admin_state"], body["health"]["state"]) == ("draining", "ready")


def test_of_two_new_fleets_with_one_alias_one_is_refused() -> None:
    for attempt in range(5):
        alias = f"chat-{attempt}"
        results = at_once(
            *(
                lambda name=name, alias=alias: fleets.create(
                    {"name": name, "protocol": "openai", "aliases": [alias]}, "w"
                )
                for name in (f"a{attempt}", f"b{attempt}")
            )
        )
        refused = [result for result in results if isinstance(result, Exception)]
        assert [type(each) for each in refused] in ([Conflict], [Invalid]), results
        assert [alias in fleet.aliases for fleet in Fleet.objects.all()].count(True) == 1


def test_of_two_new_fleets_with_one_name_one_is_refused_with_words() -> None:
    for attempt in range(5):
        results = at_once(
            *[
                lambda attempt=attempt: fleets.create({"name": f"n{attempt}", "protocol": "openai"}, "w")
                for _ in range(3)
            ]
        )
        refused = [result for result in results if isinstance(result, Exception)]
        assert [type(each) for each in refused] == [Conflict, Conflict], results


def test_of_two_replicas_that_fit_alone_one_is_refused_where_both_do_not(
    make_fleet: Callable[..., str],
) -> None:
    make_fleet("a")
    make_fleet("b")
    for attempt in range(5):
        device = f"node1/gpu{attempt}"
        accelerators.create({"name": device, "memory_bytes": 100, "headroom_percent": 0.0}, "w")
        on = {"url": "http://h", "accelerators": [device], "memory_bytes": 60}
        results = at_once(
            *(
                lambda fleet=fleet, on=on, attempt=attempt: replicas.register(
                    fleet, {"name": f"r{attempt}", **on}, "w"
                )
                for fleet in ("a", "b")
            ),
            lambda device=device: accelerators.update(device, {"memory_bytes": 110}, "w"),
        )
        refused = [result for result in results if isinstance(result, Exception)]
        assert [type(each) for each in refused] == [Conflict], results
        assert sum(one.memory_bytes for one in device_memory.held([device])) == 60


def test_changes_that_touch_the_same_fleets_in_another_order_all_come_through(
    make_fleet: Callable[..., str],
) -> None:
    hardware.create({"name": "h1", "weight": 1.0}, "w")
    hardware.create({"name": "h2", "weight": 1.0}, "w")
    for name in ("a", "b", "c"):
        rows = [
            {"name": f"r{number}", "url": f"http://127.0.0.1:{9000 + number}", "hardware": f"h{number}"}
            for number in (1, 2)
        ]
        make_fleet(name, replicas=rows)
    for weight in (2.0, 3.0, 4.0):
        results = at_once(
            lambda weight=weight: hardware.update("h1", {"weight": weight}, "w"),
            lambda weight=weight: hardware.update("h2", {"weight": weight}, "w"),
            lambda weight=weight: policies.change("c", {"slow_start_s": weight}, "w"),
            lambda weight=weight: policies.change("a", {"slow_start_s": weight}, "w"),
        )
        assert not [result for result in results if isinstance(result, Exception)], results
    assert {fleet.table_version for fleet in Fleet.objects.filter(name__in="ac")} == {10}
