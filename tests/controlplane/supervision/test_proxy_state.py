"""The copy of the routing table that ``up`` finds: our own goes, that of another installation stays."""

from pathlib import Path

import pytest

from controlplane.models import TableState
from controlplane.publishing import installation
from controlplane.supervision import proxy_state
from routing.contract.table import Manifest
from routing.master.disk_cache import DiskCache

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

OTHER = "11111111-2222-3333-4444-555555555555"


def saved(directory: Path, of: str) -> Path:
    DiskCache(directory).save(Manifest(epoch=1, version=3, installation=of), [])
    return directory / "manifest.json"


def test_our_own_copy_goes(tmp_path: Path) -> None:
    copy = saved(tmp_path / "proxy", installation.settled().installation)
    assert proxy_state.prepare(tmp_path / "proxy") == ""
    assert not copy.exists()


def test_the_table_of_another_installation_stays(tmp_path: Path) -> None:
    copy = saved(tmp_path / "proxy", OTHER)
    told = proxy_state.prepare(tmp_path / "proxy")
    assert copy.exists()
    assert f"goes on with the table of installation {OTHER}" in told
    assert "`switchyard takeover`" in told


def test_that_of_one_that_was_taken_over_goes(tmp_path: Path) -> None:
    row = installation.settled()
    TableState.objects.filter(pk=row.pk).update(succeeded=[OTHER])
    copy = saved(tmp_path / "proxy", OTHER)
    assert proxy_state.prepare(tmp_path / "proxy") == ""
    assert not copy.exists()


@pytest.mark.parametrize("content", [b"", b'{"epoch": 1, "ver', b"\xff\x00"])
def test_what_cannot_be_read_goes(tmp_path: Path, content: bytes) -> None:
    copy = tmp_path / "proxy" / "manifest.json"
    copy.parent.mkdir()
    copy.write_bytes(content)
    assert proxy_state.prepare(tmp_path / "proxy") == ""
    assert not copy.exists()


def test_the_first_start(tmp_path: Path) -> None:
    assert proxy_state.prepare(tmp_path / "proxy") == ""
