"""What ``docs/`` says works when pasted, and names every setting."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from controlplane.services import tokens
from tests import needs

pytestmark = pytest.mark.any_database

ROOT = Path(__file__).resolve().parents[3]


def blocks(document: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / document).read_text(), re.DOTALL)


def test_every_curl_of_the_api_page_works_when_pasted(live_server: Any, operator: User) -> None:
    needs.program("curl")
    call_command("apply", str(ROOT / "examples" / "fleets.yaml"), verbosity=0)
    first, *rest = blocks("api.md")
    assert "createtoken" in first
    # As pasted, but failing on the first error answer.
    script = "\n".join(rest).replace("curl -s", "curl -sS --fail-with-body")
    environment = {
        "PATH": os.environ["PATH"],
        "SWITCHYARD": live_server.url,
        "TOKEN": tokens.create(operator, "docs", "tests")[1],
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert script.count("curl") > 15
    assert '"changed":["slow_start_s: 10 → 20"]' in done.stdout


def test_every_setting_is_documented() -> None:
    read = set(re.findall(r'"(SWITCHYARD_[A-Z_]+)"', (ROOT / "controlplane" / "settings.py").read_text()))
    documented = set(
        re.findall(r"^\| `(SWITCHYARD_[A-Z_]+)`", (ROOT / "docs" / "settings.md").read_text(), re.M)
    )
    assert read == documented
