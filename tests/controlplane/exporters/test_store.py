"""Readings are opened when they were written anew, not each time that somebody looks."""

import redis

from controlplane.exporters import store
from controlplane.exporters.readings import DeviceReading, ExporterReading
from controlplane.telemetry.measured_devices import measured_devices

AT = 1_700_000_000.0
NAMES = ("a", "b")


def reading(exporter: str, at: float, used_bytes: int = 1) -> ExporterReading:
    device = DeviceReading(device="gpu0", used_bytes=used_bytes)
    return ExporterReading(exporter=exporter, host=f"host-{exporter}", at=at, devices=[device])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_did_not_change_is_the_same_object(redis_client: "redis.Redis") -> None:
    reader = store.ReadingsReader(Clock())
    store.keep(redis_client, [reading(name, AT) for name in NAMES], NAMES)
    first = reader.read(redis_client)
    assert [one.exporter for one in first] == list(NAMES)
    assert reader.read(redis_client) is first

    store.keep(redis_client, [reading("b", AT + 10, used_bytes=2)], NAMES)
    second = reader.read(redis_client)
    assert second[0] is first[0]
    assert second[1].devices[0].used_bytes == 2

    store.keep(redis_client, [], ["b"])
    assert [one.exporter for one in reader.read(redis_client)] == ["b"]
    redis_client.flushall()
    assert reader.read(redis_client) == []


def test_readings_that_an_older_worker_writes_are_found_within_seconds(redis_client: "redis.Redis") -> None:
    clock = Clock()
    reader = store.ReadingsReader(clock)
    store.keep(redis_client, [reading("a", AT)], ["a"])
    reader.read(redis_client)
    written = redis_client.get(store.WRITTEN)
    assert written is not None
    store.keep(redis_client, [reading("a", AT + 10)], ["a"])
    redis_client.set(store.WRITTEN, written)
    assert reader.read(redis_client)[0].at == AT
    clock.now = store.LOOK_AGAIN_S
    assert reader.read(redis_client)[0].at == AT + 10


def test_devices_of_the_same_readings_are_not_looked_at_again() -> None:
    readings = [reading(name, AT) for name in NAMES]
    first = measured_devices(readings, AT + 1)
    second = measured_devices(readings, AT + 2, first)
    assert second.devices is first.devices
    assert [host.age_s for host in second.hosts] == [2.0, 2.0]
    late = measured_devices(readings, AT + 100, second)
    assert not late.devices
    assert late.hosts[0].problem.startswith("not read for 100 s")
    assert measured_devices(readings, AT + 3, late).devices == first.devices
