"""A real environment by the vendored pip, from a lock of small wheels: made, kept, repaired, refused."""

import subprocess
from pathlib import Path

import pytest

from bootstrap import environment, launcher
from bootstrap.errors import BootstrapError
from tests.bootstrap import wheels


class Place:
    """A project of its own: locks, wheels and where its environment goes."""

    def __init__(self, folder: Path) -> None:
        self.locks = folder / "locks"
        self.venv = folder / "venv"
        self.wheels = folder / "wheels"
        self.locks.mkdir()
        self.lock(wheels.build(self.wheels, "alpha", "1.0", 1))
        self.lock(wheels.build(self.wheels, "beta", "1.0", 10), "lock-dev.txt")

    def lock(self, text: str, name: str = "lock.txt") -> None:
        (self.locks / name).write_text(text)

    def ensure(self, dev: bool = False) -> Path:
        return environment.ensure(dev, self.venv, self.locks)

    def value(self, module: str) -> int:
        python = self.venv / "bin" / "python"
        program = f"import {module}; print({module}.VALUE)"
        return int(subprocess.run([python, "-c", program], check=True, capture_output=True).stdout)

    def was_left_alone(self) -> bool:
        """Whether nothing has been installed since :meth:`mark`."""
        return self.mark_file.exists()

    def mark(self) -> None:
        self.mark_file.touch()

    @property
    def mark_file(self) -> Path:
        return self.venv / "mark"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place.wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return place


def test_what_the_lock_names_is_installed_once(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    python = place.ensure()
    assert python == place.venv / "bin" / "python"
    assert place.value("alpha") == 1
    said = capfd.readouterr().out
    command = [place.venv / "bin" / "switchyard", "--help"]
    assert "import" in subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    assert "installing 1 locked package into" in said
    assert "installed in" in said
    place.mark()
    place.ensure()
    assert place.was_left_alone()
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_packages_for_other_machines_are_not_counted(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    here = (place.locks / "lock.txt").read_text()
    other = here.replace("alpha==1.0", 'gamma==1.0 ; sys_platform == "win32"')
    place.lock(here + other)
    place.ensure()
    said = capfd.readouterr().out
    assert "installing 2 locked packages into" in said
    assert "1 of the 1 for this machine, now alpha" in said


def test_test_tools_come_on_top_and_leave_the_rest_alone(place: Place) -> None:
    place.ensure()
    place.mark()
    place.ensure(dev=True)
    assert (place.value("alpha"), place.value("beta")) == (1, 10)
    assert place.was_left_alone()
    place.ensure(dev=False)
    assert place.was_left_alone()


@pytest.mark.long
def test_an_interrupted_install_is_made_again(place: Place) -> None:
    place.ensure()
    (place.venv / environment.STAMP).unlink()
    module = next(place.venv.glob("lib/python3*/site-packages/alpha.py"))
    module.write_text("VALUE = 'half writ")
    place.ensure()
    assert place.value("alpha") == 1


@pytest.mark.long
def test_another_lock_makes_another_environment(place: Place) -> None:
    place.ensure()
    place.lock(wheels.build(place.wheels, "alpha", "2.0", 2))
    place.ensure()
    assert place.value("alpha") == 2


def test_a_package_with_another_hash_is_refused(place: Place) -> None:
    place.lock("alpha==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(BootstrapError, match=r"is not the one that was locked \(its hash differs\)"):
        place.ensure()
    assert not environment.is_current(place.venv, place.locks, dev=False)


def test_no_network_is_one_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(BootstrapError, match=r"The package index cannot be reached: check the network"):
        place.ensure()


@pytest.mark.long
def test_a_package_that_the_index_lacks_is_one_sentence(place: Place) -> None:
    place.lock("gamma==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(BootstrapError, match=r"The package index gave nothing at all for gamma==1\.0"):
        place.ensure()


@pytest.mark.long
def test_no_wheel_for_this_machine_is_one_sentence(place: Place) -> None:
    wheels.build(place.wheels, "gamma", "0.9", 3)
    place.lock("gamma==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(BootstrapError, match=r"no ready-made package gamma==1\.0 for this machine"):
        place.ensure()


def test_an_environment_of_somebody_else_is_not_touched(place: Place) -> None:
    place.venv.mkdir()
    (place.venv / "precious").touch()
    with pytest.raises(BootstrapError, match="was not made by Switchyard"):
        place.ensure()
    assert (place.venv / "precious").exists()


def test_an_environment_behind_a_link_is_used_and_never_changed(place: Place) -> None:
    place.ensure()
    real = place.venv.rename(place.venv.with_name("elsewhere"))
    place.venv.symlink_to(real)
    place.mark()
    assert place.ensure() == place.venv / "bin" / "python"
    place.lock(wheels.build(place.wheels, "alpha", "2.0", 2))
    with pytest.raises(BootstrapError, match=r"is a symbolic link.*remove the link \(rm .*venv\), then try"):
        place.ensure()
    assert place.was_left_alone()
    assert place.value("alpha") == 1


def test_a_link_to_nothing_is_one_sentence(place: Place) -> None:
    place.venv.symlink_to("gone")
    with pytest.raises(BootstrapError, match="is a symbolic link, to an environment that is missing"):
        place.ensure()


def test_the_command_of_a_linked_environment_is_of_the_project_with_the_link(tmp_path: Path) -> None:
    """Else ``switchyard down`` would stop what another checkout has started."""
    real = tmp_path / "disk" / "checkout" / ".venv"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "python").write_text('#!/bin/sh\necho "$3"\n')
    (real / "bin" / "python").chmod(0o755)
    launcher.write_launcher(real, real.parent)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".venv").symlink_to(real)
    (tmp_path / "command").symlink_to("linked/.venv/bin/switchyard")
    for command, project in (
        (real / "bin" / "switchyard", real.parent),
        (linked / ".venv" / "bin" / "switchyard", linked),
        (tmp_path / "command", linked),
    ):
        said = subprocess.run([command], check=True, capture_output=True, text=True, cwd="/").stdout
        assert said == f"{project}\n"
