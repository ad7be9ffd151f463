"""README.md, docs/architecture.md and other pages name paths that exist, and a request goes as they say."""

import argparse
import re
from collections import Counter

import pytest

from tests.benchmarks import journey
from tests.docs.blocks import PROJECT

PAGES = (
    *("README.md", "docs/architecture.md", "docs/security.md"),
    *("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
)
TOP = ("bootstrap", "controlplane", "dashboard", "deploy", "docs", "examples", "routing", "tests")
PATH = re.compile(rf"`((?:{'|'.join(TOP)})/[\w./-]*)`")
LINK = re.compile(r"\]\(([^):#]+)(?:#([\w-]+))?\)")
USUAL = argparse.Namespace(heads="same", key=False, strategy="", models="any", stream=False)


def text_of(page: str) -> str:
    return (PROJECT / page).read_text("utf-8")


def steps(name: str) -> list[str]:
    """The files of one of the page's two ways of a request, in order."""
    block = text_of("docs/architecture.md").partition(f"<!-- journey: {name} -->\n")[2]
    lines = block.partition("<!-- end of journey -->")[0].splitlines()
    found = [re.match(r"\d+\. `routing/(\S+)`", line) for line in lines]
    assert all(found), lines
    return [match[1] for match in found if match]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_is_there(page: str) -> None:
    missing = [path for path in PATH.findall(text_of(page)) if not (PROJECT / path).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target, heading in LINK.findall(text_of(page)):
        file = (PROJECT / page).parent / target
        assert file.exists(), target
        if heading:
            lines = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}
            assert heading in anchors, f"{target}#{heading}"


def test_a_folder_of_the_layout_is_a_package() -> None:
    layout = text_of("docs/architecture.md").partition("## Folders\n")[2].partition("\n## ")[0]
    folders = re.findall(r"^\| `(\S+)/` \|", layout, re.MULTILINE)
    assert len(folders) > 5
    for folder in folders:
        assert (PROJECT / folder / "__init__.py").exists(), folder


@pytest.mark.system
def test_a_warm_request_goes_the_way_that_the_page_shows() -> None:
    """Some requests pass a file more, where something is learned anew only so often; most pass none."""
    shown = tuple(steps("request")), tuple(steps("answer"))
    for _ in range(3):  # on a busy machine a call may be counted to the next request's way
        found = Counter(
            (tuple(dict.fromkeys(there.entries)), tuple(dict.fromkeys(back.entries)))
            for there, back in journey.journeys(USUAL)
        )
        if found[shown] >= journey.TOLD / 10:
            return
    raise AssertionError(found.most_common(3))
