"""The example of the balancer as a library: it runs, and every frame is counted."""

from examples.on_board import CAMERAS, SPEEDS, Vehicle


def test_every_frame_comes_to_an_accelerator_and_is_counted():
    vehicle = Vehicle("least_expected_work")
    vehicle.drive(0.3)
    assert vehicle.counts.total() == 9 * CAMERAS
    assert set(vehicle.counts) <= {"in time", "late"}
    explained = vehicle.balancer.explain()
    assert {one.name for one in explained} == set(SPEEDS)
