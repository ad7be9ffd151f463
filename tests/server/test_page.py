"""docs/proxy.md names every flag and every metric there is."""

import re

import pytest

from routing.parent.options import parse
from tests.server.rig import ROOT

PAGE = (ROOT / "docs" / "proxy.md").read_text()


def test_every_flag_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    documented = set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.M))
    assert len(flags) > 10
    assert flags == documented
