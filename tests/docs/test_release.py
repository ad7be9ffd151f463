"""What a release carries: one version, a licence, metadata, and bounds that the locks keep to."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from bootstrap.environment import LOCKS
from routing.contract.version import VERSION
from tests.docs.blocks import PROJECT

PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
DECLARED = PYPROJECT["project"]
CHANGELOG = (PROJECT / "CHANGELOG.md").read_text("utf-8")
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
PINNED = re.compile(r"^([a-z0-9-]+)==([^\s;]+)", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
REQUIRED = [
    *DECLARED["dependencies"],
    *DECLARED["optional-dependencies"]["examples"],
    *PYPROJECT["dependency-groups"]["dev"],
]


def locked() -> dict[str, list[str]]:
    """Package → versions; some have one for each Python."""
    found: dict[str, list[str]] = {}
    for lock in ("lock.txt", "lock-dev.txt"):
        for name, version in PINNED.findall((LOCKS / lock).read_text()):
            found.setdefault(name, []).append(version)
    return found


def test_the_version_is_written_down_once() -> None:
    assert "version" not in DECLARED
    assert DECLARED["dynamic"] == ["version"]
    source = PYPROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, name = source.rsplit(".", 1)
    text = PROJECT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
    assert f'{name} = "{VERSION}"' in text
    assert Version(VERSION).release == tuple(int(part) for part in VERSION.split("."))


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    releases = RELEASE.findall(CHANGELOG)
    assert releases[0][0] == VERSION
    versions = [Version(version) for version, _ in releases]
    assert versions == sorted(versions, reverse=True)
    dates = [date for _, date in releases]
    assert dates == sorted(dates, reverse=True)


def test_the_changelog_keeps_to_its_form() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(RELEASE.match(f"## {heading}") for heading in headings[1:]), headings
    assert set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)) <= KINDS


def test_the_licence_is_whole_and_named() -> None:
    text = (PROJECT / "LICENSE").read_text("utf-8")
    first = [line.strip() for line in text.strip().splitlines()[:2]]
    assert first == ["Apache License", "Version 2.0, January 2004"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert DECLARED["license"] == "Apache-2.0"
    assert "LICENSE" in DECLARED["license-files"]
    assert not [each for each in DECLARED["classifiers"] if each.startswith("License")]


def test_every_licence_file_that_is_declared_is_there() -> None:
    for pattern in DECLARED["license-files"]:
        assert list(PROJECT.glob(pattern)), pattern


def test_the_metadata_is_complete() -> None:
    wanted = {
        "name",
        "description",
        "readme",
        "requires-python",
        "license",
        "authors",
        "keywords",
        "classifiers",
    }
    assert wanted <= set(DECLARED)
    assert f"Framework :: Django :: {locked()['django'][0].rsplit('.', 1)[0]}" in DECLARED["classifiers"]


@pytest.mark.parametrize("declared", REQUIRED)
def test_each_dependency_has_bounds_between_which_its_lock_is(declared: str) -> None:
    requirement = Requirement(declared)
    assert {each.operator for each in requirement.specifier} == {">=", "<"}
    versions = locked()[requirement.name]
    assert all(requirement.specifier.contains(version) for version in versions), versions


def test_the_oldest_python_is_one_for_which_there_is_a_classifier() -> None:
    supported = SpecifierSet(DECLARED["requires-python"])
    named = [
        each.rpartition(" ")[2] for each in DECLARED["classifiers"] if re.search(r"Python :: 3\.\d+$", each)
    ]
    assert named
    assert all(supported.contains(version) for version in named)
