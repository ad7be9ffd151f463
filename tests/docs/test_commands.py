"""The commands in README.md and docs/ work when pasted, against everything running.

``pytest tests/docs -s`` shows how many were run, and why each of the others was not.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import (
    FOREGROUND,
    NOT_RUN,
    PROJECT,
    RUN_ELSEWHERE,
    Block,
    blocks,
    fenced,
    pages,
    reason_not_run,
    runs_in_foreground,
)
from tests.server.rig import free_port, until
from tests.system.stack import Stack

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(240),
    pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here: apt-get install curl"),
]

FLEETS = """\
fleets:
  - name: echo
    protocol: generic
    replicas:
      - {name: a, url: "http://127.0.0.1:9"}
"""
BEFORE = """\
set -e -o pipefail
curl() { command curl -sS --fail-with-body "$@"; }
"""
"""Any error answer ends the page's script, where a person would stop too."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("docs-up"), "--no-client")
    try:
        running.wait_until_up()
        until(lambda: running.eligible("digits") and running.eligible("tiny-llm"), "models answer", 60)
        yield running
    finally:
        running.stop()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that looks like the project, in which commands may leave files."""
    for source in PROJECT.iterdir():
        if not source.name.startswith(".") and source.name not in ("var", "fleets.yaml"):
            (tmp_path / source.name).symlink_to(source)
    (tmp_path / "fleets.yaml").write_text(FLEETS)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def adapted(text: str, stack: Stack) -> str:
    """Where this stack listens; and this interpreter, which a link would not make its environment's."""
    ports = {"8000": stack.port, "8080": stack.proxy_port, "8081": stack.admin_port}
    ports |= {str(8082 + offset): stack.metrics_port + offset for offset in range(4)}
    text = re.sub(r"127\.0\.0\.1:(80\d\d)\b", lambda m: f"127.0.0.1:{ports.get(m[1], m[1])}", text)
    return re.sub(r"(?<![\w/.-])(\.venv/bin/)?python3?(?= (-m|-c|manage\.py))", sys.executable, text)


def run(script: str, place: Path, stack: Stack) -> subprocess.CompletedProcess[str]:
    environment = {
        **stack.environment,
        "SWITCHYARD_PROXY_URL": f"http://127.0.0.1:{stack.proxy_port}",
        "PATH": os.environ["PATH"],
        "SWITCHYARD": stack.url,
        "TOKEN": stack.token,
        "KEY": "sy-none",
    }
    return subprocess.run(
        ["bash", "-c", BEFORE + script],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


RUN = [
    block
    for block in blocks()
    if block.page not in RUN_ELSEWHERE and not reason_not_run(block) and not runs_in_foreground(block)
]


@pytest.mark.parametrize("document", sorted({block.page for block in RUN}))
def test_a_pages_commands_work_one_after_the_other(document: str, place: Path, stack: Stack) -> None:
    script = "\n".join(adapted(block.text, stack) for block in RUN if block.page == document)
    done = run(script, place, stack)
    assert done.returncode == 0, f"{document}:\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize(
    "block", [block for block in blocks() if runs_in_foreground(block)], ids=lambda block: block.page
)
def test_a_command_that_stays_listens_until_it_is_stopped(block: Block, place: Path, stack: Stack) -> None:
    command = re.sub(r"127\.0\.0\.1:8080", f"127.0.0.1:{free_port()}", block.text.strip())
    command = f"exec {adapted(command, stack)} --admin none --min-drain-seconds 0"
    log = place / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(["bash", "-c", command], cwd=place, stdout=output, stderr=output)
    try:
        until(lambda: process.poll() is not None or "listening on" in log.read_text(), "it listens")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_every_block_names_its_language() -> None:
    """Without it nobody could tell a command from a picture."""
    nameless = [(page.name, text[:40]) for page in pages() for language, text in fenced(page) if not language]
    assert not nameless


def test_every_reason_is_of_a_block_that_is_there() -> None:
    for page, begin in [*NOT_RUN, *FOREGROUND]:
        assert any(block.page == page and block.text.startswith(begin) for block in blocks()), (page, begin)


def test_coverage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    every = blocks()
    left_out = [(block, reason) for block in every if (reason := reason_not_run(block))]
    total = sum(block.commands for block in every)
    ran = total - sum(block.commands for block, _ in left_out)
    with capsys.disabled():
        print(f"\n{ran} of {total} commands of README.md and docs/ ran; not run:")
        for block, reason in left_out:
            first = block.text.splitlines()[0]
            print(f"  {block.commands:2} in {block.page}: {first[:60]} … {reason}")
        for page, test in RUN_ELSEWHERE.items():
            print(f"  all of {page} in {test}")
    assert ran > total / 2
