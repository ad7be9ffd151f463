"""How long an emergency drain holds."""

from routing.master.admin.emergency_drain import DEFAULT_S, EmergencyDrains


def test_an_emergency_drain_runs_out() -> None:
    drains = EmergencyDrains()
    drains.drain("echo", "r1", 100.0)
    drains.drain("echo", "r2", 100.0, 60.0)
    assert drains.all() == [("echo", "r1", 100.0 + DEFAULT_S), ("echo", "r2", 160.0)]
    assert drains.expire(160.0) == [("echo", "r2", 160.0)]
    assert not drains.expire(100.0 + DEFAULT_S - 1)
    assert drains.expire(100.0 + DEFAULT_S) == [("echo", "r1", 100.0 + DEFAULT_S)]
    assert drains.all() == []
    assert not drains.undrain("echo", "r1")
