"""The locks pin everything, name no place, and hold what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

import pytest

from bootstrap import auditing, compiling, servers
from bootstrap.environment import LOCKS, PIP, PROJECT, checked_pip
from bootstrap.lock import HEADER, SERVERS_HEADER, blocks

LOCK = (LOCKS / "lock.txt").read_text()
LOCK_DEV = (LOCKS / "lock-dev.txt").read_text()
LOCK_SERVERS = (servers.LOCKS / "lock.txt").read_text()
LOCK_AUDIT = (auditing.LOCKS_OF_THE_TOOLS / "lock.txt").read_text()
LOCK_COMPILE = (compiling.LOCKS_OF_THE_TOOLS / "lock.txt").read_text()
NAME = re.compile(r"^[A-Za-z0-9._-]+")


def names(lock: str) -> set[str]:
    return {normal(block) for block in blocks(lock)}


def normal(requirement: str) -> str:
    found = NAME.match(requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@pytest.mark.parametrize(
    "lock",
    [LOCK, LOCK_DEV, LOCK_SERVERS, LOCK_AUDIT, LOCK_COMPILE],
    ids=["runtime", "dev", "servers", "audit", "compile"],
)
def test_every_package_is_pinned_to_hashes(lock: str) -> None:
    assert lock.startswith((HEADER, SERVERS_HEADER))
    assert len(blocks(lock)) > 6
    for block in blocks(lock):
        assert re.match(r"[a-z0-9-]+==\S+", block), block[:60]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:60]


@pytest.mark.parametrize(
    "lock",
    [LOCK, LOCK_DEV, LOCK_SERVERS, LOCK_AUDIT, LOCK_COMPILE],
    ids=["runtime", "dev", "servers", "audit", "compile"],
)
def test_no_place_is_named(lock: str) -> None:
    assert not re.search(r"://|index-url|find-links|^-[ief]", lock, re.MULTILINE)


def test_the_locks_hold_what_the_project_declares() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    declared = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["examples"]
    assert {normal(name) for name in declared} <= names(LOCK)
    dev = {normal(name) for name in project["dependency-groups"]["dev"]}
    assert dev <= names(LOCK) | names(LOCK_DEV)


@pytest.mark.parametrize(
    ("folder", "lock"),
    [
        (servers.LOCKS, LOCK_SERVERS),
        (auditing.LOCKS_OF_THE_TOOLS, LOCK_AUDIT),
        (compiling.LOCKS_OF_THE_TOOLS, LOCK_COMPILE),
    ],
)
def test_the_locks_apart_hold_what_is_written_beside_them(folder: Path, lock: str) -> None:
    wanted = (folder / "requirements.in").read_text().splitlines()
    assert {normal(line) for line in wanted if not line.startswith("#")} <= names(lock)


def test_the_test_tools_come_on_top() -> None:
    assert not names(LOCK) & names(LOCK_DEV)


def test_the_vendored_pip_is_the_published_one() -> None:
    assert checked_pip() == PIP
