"""Which tables a proxy refuses because of where they are from."""

import msgspec
import pytest

from routing.contract.installation import objection
from routing.contract.table import MAX_EPOCH, MAX_VERSION, FleetSnapshot, Manifest


def manifest(installation: str, **fields: object) -> Manifest:
    return Manifest(epoch=1, version=1, installation=installation, **fields)  # type: ignore[arg-type]


def snapshot(installation: str) -> FleetSnapshot:
    return FleetSnapshot(
        epoch=1, version=1, revision=1, name="echo", protocol="generic", installation=installation
    )


HELD = manifest("ours", fleets={"echo": 1})


@pytest.mark.parametrize(
    "table",
    [
        manifest("ours"),
        manifest("", fleets={"other": 1}),
        manifest("next", succeeded=["first", "ours"]),
        snapshot("ours"),
        snapshot(""),
    ],
    ids=["own, without fleets", "of an older version", "a successor's", "own fleet", "fleet of an older one"],
)
def test_taken(table: Manifest | FleetSnapshot) -> None:
    assert objection(HELD, table) == ""


@pytest.mark.parametrize("table", [manifest("theirs", succeeded=["others"]), snapshot("theirs")])
def test_of_another_installation(table: Manifest | FleetSnapshot) -> None:
    said = objection(HELD, table)
    assert said.startswith("it is of installation theirs, and this proxy routes for ours")
    assert "switchyard takeover" in said


def test_nobodys_manifest_does_not_remove_all_fleets() -> None:
    assert (
        objection(HELD, manifest(""))
        == "it has no fleets and names no installation: no control plane wrote it"
    )
    assert objection(manifest("ours"), manifest("")) == ""


@pytest.mark.parametrize(
    ("epoch", "version"), [(2**63 - 1, 1), (-1, 1), (1, 2**63 - 1), (MAX_EPOCH + 1, 0), (0, MAX_VERSION + 1)]
)
@pytest.mark.parametrize("held", [HELD, Manifest(epoch=0, version=0)], ids=["held", "nothing held"])
def test_a_version_that_no_control_plane_writes(held: Manifest, epoch: int, version: int) -> None:
    for table in (manifest("ours"), snapshot("ours")):
        replaced = msgspec.structs.replace(table, epoch=epoch, version=version)
        assert f"a version like {epoch}:{version}: " in objection(held, replaced)


def test_the_last_version_that_counts() -> None:
    last = msgspec.structs.replace(manifest("ours"), epoch=MAX_EPOCH, version=MAX_VERSION)
    assert objection(HELD, last) == ""


@pytest.mark.parametrize("table", [manifest("theirs"), manifest(""), snapshot("theirs")])
def test_a_proxy_without_an_installation_takes_any(table: Manifest | FleetSnapshot) -> None:
    assert objection(Manifest(epoch=0, version=0), table) == ""
    assert objection(manifest("", fleets={"echo": 1}), table) == ""
