"""The disk cache of the routing table."""

import stat
from pathlib import Path

import pytest

from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.master.disk_cache import DiskCache


def table(version: int = 1, replicas: int = 2) -> FleetSnapshot:
    specs = [
        ReplicaSpec(uid=f"u{number}", name=f"r{number}", url=f"http://10.0.0.{number}:80")
        for number in range(1, replicas + 1)
    ]
    return FleetSnapshot(
        epoch=1, version=version, revision=1, name="echo", protocol="generic", replicas=specs
    )


MANIFEST = Manifest(epoch=1, version=1, fleets={"echo": 1}, default="echo")


def test_the_disk_copy_is_read_as_it_was_saved(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    assert DiskCache(directory).load() is None
    copy = DiskCache(directory)
    copy.save(MANIFEST, [table()])
    assert DiskCache(directory).load() == (MANIFEST, [table()])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {"manifest.json", "fleet-echo.json"}

    copy.save(Manifest(epoch=1, version=2), [])
    assert {path.name for path in directory.iterdir()} == {"manifest.json"}


def test_a_version_that_no_control_plane_writes_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An older proxy may have saved it; nothing could ever be newer."""
    DiskCache(tmp_path).save(Manifest(epoch=2**63 - 1, version=1), [])
    assert DiskCache(tmp_path).load() is None
    assert "manifest.json cannot be used: no control plane writes" in caplog.text


def test_a_damaged_file_costs_that_file_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    DiskCache(tmp_path).save(MANIFEST, [table()])
    (tmp_path / "fleet-echo.json").write_bytes(b'{"epoch": 1, "ver')
    assert DiskCache(tmp_path).load() == (MANIFEST, [])
    assert "fleet-echo.json cannot be used" in caplog.text
    (tmp_path / "manifest.json").write_bytes(b"\xff")
    assert DiskCache(tmp_path).load() is None
