"""The Dockerfile makes an image that holds what runs in it, checked without an engine."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import image
from tests.deploy.conftest import Image
from tests.deploy.services import PROJECT


def test_every_line_is_an_instruction_that_is_known() -> None:
    found = image.instructions()
    assert found[0].keyword == "FROM"
    assert {each.keyword for stage in image.stages() for each in stage} <= image.KNOWN


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, "--no-color", image.DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


OF_THE_BASE = {"python", "pip"}
"""What the base image adds to a slim Debian."""


def test_run_lines_use_only_what_the_base_holds() -> None:
    """A slim Debian holds the packages of priority "required" or "essential": dpkg says what is in which."""
    used = {tool for line in image.run_lines() for tool in image.tools(line)}
    assert {"useradd", "pip", "python"} <= used
    if shutil.which("dpkg") is None:
        pytest.skip("no dpkg here: this is seen on Debian and its kin")
    for tool in used - OF_THE_BASE:
        place = shutil.which(tool)
        assert place, tool
        package = owner(place) or owner(str(Path(place).resolve())) or owner(place.removeprefix("/usr"))
        shown = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Priority} ${Essential}", package], capture_output=True, text=True
        )
        assert "required" in shown.stdout or "yes" in shown.stdout, (tool, package, shown.stdout)


def owner(path: str) -> str:
    """The package that the file is of; empty: none."""
    found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
    return found.stdout.partition(":")[0]


def test_what_runs_is_not_root_and_cannot_write_the_code() -> None:
    found = image.instructions()
    made = shlex.split(next(each.arguments for each in found if each.arguments.startswith("useradd")))
    assert made[-1] == "switchyard"
    number = made[made.index("--uid") + 1]
    assert int(number) > 0
    assert [each.arguments for each in found if each.keyword == "USER"] == [number]
    owned = [each.arguments for each in found if "chown" in each.arguments]
    assert [shlex.split(line)[-1] for line in owned] == ["/var/lib/switchyard"]


def test_the_python_is_one_that_the_project_supports() -> None:
    version = re.fullmatch(r"python:3\.(\d+)-slim", image.instructions()[0].arguments)
    assert version
    assert int(version[1]) >= 11


def test_packages_are_those_of_the_lock() -> None:
    pip = shlex.split(
        next(each.arguments for each in image.instructions() if "pip install" in each.arguments)
    )
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(pip)
    assert (PROJECT / pip[pip.index("-r") + 1]).is_file()


@pytest.mark.long
def test_our_commands_work_on_nothing_but_what_was_copied(built_image: Image) -> None:
    assert len(image.own_commands()) == 2
    assert (built_image.data / "static" / "staticfiles.json").is_file()
    assert list((built_image.root / "controlplane" / "__pycache__").glob("settings.*.pyc"))


def test_what_must_stay_out_of_the_image_stays_out() -> None:
    ignored = (PROJECT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "var", ".env", "*.backup", "**/__pycache__"} <= set(ignored)
    assert {".env", "*.backup"} <= set((PROJECT / ".gitignore").read_text().split())
