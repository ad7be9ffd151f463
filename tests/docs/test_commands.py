"""The commands in README.md and docs/ work when pasted, against everything running.

``python -m tests.docs`` says how many they are, and why each of the others is not run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.config.setting_docs import DECLARED
from tests.certificates import make_certificate
from tests.docs.adapting import adapted, configurations
from tests.docs.blocks import PROJECT, Command, commands, fenced, pages
from tests.docs.plan import (
    FOREGROUND,
    NOT_RUN,
    ON_POSTGRES,
    is_among,
    reason_not_run,
    report,
    run_in_foreground,
    run_in_order,
    run_on_postgres,
)
from tests.needs import need
from tests.postgres import PostgresServer, binaries
from tests.proxy_process import free_port, until
from tests.system.stack import Stack

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]

NO_CURL = "There is no curl here: apt-get install curl enables these tests"
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
    need(shutil.which("curl"), NO_CURL)
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
    configurations(tmp_path)
    make_certificate(tmp_path, "proxy")
    return tmp_path


def environment(stack: Stack) -> dict[str, str]:
    return {
        **stack.environment,
        "SWITCHYARD_PROXY_URL": f"http://127.0.0.1:{stack.proxy_port}",
        "PATH": os.environ["PATH"],
        "SWITCHYARD": stack.url,
        "TOKEN": stack.token,
        "KEY": "sy-none",
    }


def run(script: str, place: Path, stack: Stack) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", BEFORE + script],
        cwd=place,
        env=environment(stack),
        capture_output=True,
        text=True,
        timeout=120,
    )


RUN = run_in_order()


@pytest.mark.parametrize("document", sorted({command.page for command in RUN}))
def test_a_pages_commands_work_one_after_the_other(document: str, place: Path, stack: Stack) -> None:
    script = "\n".join(adapted(command, stack, place) for command in RUN if command.page == document)
    done = run(script, place, stack)
    assert done.returncode == 0, f"{document}:\n{script}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    AFTERWARDS.get(document, nothing_more)(place)


def nothing_more(place: Path) -> None:
    """Most pages' commands say by their exit status that they worked."""


def after_production(place: Path) -> None:
    """The environment files have what the units and the settings ask for."""
    assert {path.name for path in (place / "etc-systemd-system").iterdir()} == {
        path.name for path in (PROJECT / "deploy" / "systemd").iterdir()
    }
    lines = (place / "etc-switchyard" / "control-plane.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    assert set(given) <= set(DECLARED)
    assert len(given["SWITCHYARD_SECRET_KEY"]) == 64
    assert (place / "etc-switchyard" / "proxy.env").read_text().startswith("SWITCHYARD_REDIS_URL=")


def after_backup(place: Path) -> None:
    assert [path.suffix for path in (place / "var-backups-switchyard").iterdir()] == [".backup"]


AFTERWARDS: dict[str, Callable[[Path], None]] = {
    "docs/production.md": after_production,
    "docs/backup.md": after_backup,
}


@pytest.mark.parametrize("document", sorted({command.page for command in run_on_postgres()}))
def test_a_pages_commands_for_postgresql_work_on_one(
    document: str, place: Path, stack: Stack, postgres_server: PostgresServer
) -> None:
    """With a backup under the name that the page's other commands give it."""
    chosen = [command for command in commands() if command.page == document]
    name = next(
        found[1] for command in chosen if (found := re.search(r"restore (?:.* )?(\S+\.backup)", command.text))
    )
    made = run(adapted(Command(document, f"python manage.py backup {name}"), stack, place), place, stack)
    assert made.returncode == 0, made.stderr
    if not any("createdb" in command.text for command in chosen):
        postgres_server.create_database("switchyard_new")
    lines = [adapted(command, stack, place) for command in run_on_postgres() if command.page == document]
    host = f"?host={postgres_server.folder}"
    # Its server runs as this user, and knows one account.
    script = "\n".join(lines).replace("runuser -u postgres -- ", "")
    script = re.sub(r"(postgresql://switchyard@/\w+)", rf"\1{host}", script)
    programs = binaries()
    assert programs is not None
    given = f"export PGHOST={postgres_server.folder} PGUSER=switchyard PATH={programs}:$PATH\n"
    done = run(given + script, place, stack)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Restored \d+ rows of .* as epoch", done.stdout)


@pytest.mark.parametrize(
    "command", run_in_foreground(), ids=lambda command: f"{command.page}-{command.text[-20:]}"
)
def test_a_command_that_stays_listens_until_it_is_stopped(
    command: Command, place: Path, stack: Stack
) -> None:
    port = free_port()
    text = command.text.replace(":4318", f":{free_port()}").replace("--port 9201", f"--port {port}")
    text = re.sub(r":80[89]0\b", f":{port}", text)
    text = f"exec {adapted(command._replace(text=text), stack, place)}"
    if "-m routing" in text:
        text += " --admin none --min-drain-seconds 0"
    awaited = next(word for (page, begin), word in FOREGROUND.items() if is_among(command, {(page, begin)}))
    log = place / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", text], cwd=place, stdout=output, stderr=output, env=environment(stack)
        )
    try:
        until(lambda: process.poll() is not None or awaited in log.read_text(), f"it says {awaited!r}", 60)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM), log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_every_block_names_its_language() -> None:
    """Without it nobody could tell a command from a picture."""
    nameless = [(page.name, text[:40]) for page in pages() for language, text in fenced(page) if not language]
    assert not nameless


def test_every_rule_is_of_a_command_that_is_there() -> None:
    for place in [*NOT_RUN, *FOREGROUND, *ON_POSTGRES]:
        assert any(is_among(command, {place}) for command in commands()), place


def test_each_command_has_one_rule() -> None:
    for command in [*run_on_postgres(), *run_in_foreground()]:
        assert not reason_not_run(command), command


def test_coverage_is_told_and_does_not_fall() -> None:
    found = re.match(r"tests run (\d+) of (\d+) commands", report())
    assert found
    assert int(found[1]) >= 0.7 * int(found[2])
