"""The command around the readers: where the file goes, and what a shell sees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.launcher import write_launcher
from controlplane.command_line import COMMANDS, main
from tests.controlplane.importing.conftest import SAMPLES
from tests.proxy_process import ROOT

SAMPLE = SAMPLES / "litellm.yaml"


def test_a_file_is_written_whole_and_never_over_another(run, tmp_path):
    output = tmp_path / "fleets.yaml"
    first = run("litellm", SAMPLE, "-o", output)
    assert (first.status, first.out) == (0, "")
    assert output.read_text() == run("litellm", SAMPLE).out
    output.write_text("mine")
    refused = run("litellm", SAMPLE, "-o", output)
    assert refused.status == 1
    assert refused.told == f"{output} exists and was left as it is: name another file, or add --force\n"
    assert output.read_text() == "mine"
    assert run("litellm", SAMPLE, "-o", output, "--force").status == 0
    assert output.read_text() != "mine"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("form", ["nginx", "litellm"])
def test_a_file_that_is_not_there(run, tmp_path, form):
    result = run(form, tmp_path / "none")
    assert (result.status, result.told) == (1, f"{tmp_path / 'none'}: No such file or directory\n")


def test_a_folder_that_is_not_there(run, tmp_path):
    result = run("litellm", SAMPLE, "-o", tmp_path / "no" / "fleets.yaml")
    assert (result.status, result.out) == (1, "")
    assert "cannot be written: No such file or directory" in result.told


def test_the_commands_are_listed(capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in COMMANDS)
    assert main([]) == 2


@pytest.fixture
def switchyard(tmp_path: Path) -> Path:
    """The command as the bootstrap writes it, in an environment that has this Python's packages."""
    venv = tmp_path / "some where" / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    write_launcher(venv, ROOT)
    return venv / "bin" / "switchyard"


def test_the_command_runs_from_anywhere_and_by_a_link(switchyard: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(switchyard)
    environment = {**os.environ, "SWITCHYARD_DATA_DIR": str(tmp_path / "data")}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(link), *arguments]
        return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)

    imported = call("import", "litellm", str(SAMPLE))
    assert imported.returncode == 0
    assert imported.stdout.startswith("# Made from ")
    assert not (tmp_path / "data").exists(), "an import needs no settings"
    assert call("import", "litellm", "none.yaml").returncode == 1
    assert "usage: switchyard import" in call("import").stderr
    assert "a fleet file" in call("apply", "--help").stdout
    assert call("aply").returncode == 1
    assert "Did you mean apply?" in call("aply").stderr
    assert "--listen" in call("proxy", "--help").stdout
