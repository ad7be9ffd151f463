"""docs/proxy.md names every flag and every metric there is."""

import re

import pytest

from routing.contract.accelerators import usable_bytes
from routing.contract.fleet_compiler import compile_fleet_file
from routing.contract.fleet_file import loads
from routing.master.options import parse
from tests.proxy_process import ROOT

PAGE = (ROOT / "docs" / "proxy.md").read_text()


def test_every_flag_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    documented = set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.M))
    assert len(flags) > 10
    assert flags == documented


def test_the_example_of_a_shared_device_is_the_file_that_is_started() -> None:
    text = (ROOT / "examples" / "shared_gpu.yaml").read_text()
    without_header = text[text.index("version:") :]
    assert f"```yaml\n{without_header}```" in PAGE
    manifest, snapshots = compile_fleet_file(loads(text))
    device = manifest.accelerators[0]
    replicas = [replica for fleet in snapshots for replica in fleet.replicas]
    held = sum(replica.memory_bytes or 0 for replica in replicas if device.name in replica.accelerators)
    assert usable_bytes(device) - held == 16 << 30
