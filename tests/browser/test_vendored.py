"""Vendored files are exactly those that were vendored. Needs no browser."""

import hashlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "dashboard" / "static" / "dashboard" / "vendor"
FOR_TESTS = Path(__file__).parent / "vendored"


def _listed(folder: Path) -> dict[str, str]:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split(" *") for line in lines)}


@pytest.mark.parametrize("folder", [FOLDER, FOR_TESTS], ids=["pages", "tests"])
def test_every_file_has_its_hash(folder: Path) -> None:
    actual = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.name != "SHA256SUMS"
    }
    assert actual == _listed(folder)


def test_every_package_has_its_licence() -> None:
    for licence in ("uPlot", "htm", "preact", "inter"):
        assert (FOLDER / f"{licence}.LICENSE").stat().st_size > 500
    assert (FOR_TESTS / "axe.LICENSE").stat().st_size > 500


def test_pages_name_no_other_host() -> None:
    """Everything comes from this server: the content security policy would refuse it anyway."""
    dashboard = FOLDER.parents[2]
    ours = [file for file in dashboard.rglob("*") if file.suffix in (".html", ".css", ".js")]
    for file in ours:
        if "vendor" in file.parts:
            continue
        text = file.read_text()
        for named in ("http://www.w3.org/2000/svg", "http://10.0.0.1:8000", "http://10.0.0.1:9400"):
            text = text.replace(named, "")
        assert "https://" not in text, file
        assert "http://" not in text, file
