"""The pages of ``docs/servers`` show fleets that the real readers take, and say them the same way twice."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from routing.balancing import strategies
from routing.contract.fleet_file import FleetFile, StrategyRules, loads
from routing.contract.probe_presets import PRESETS, checks_of

FOLDER = Path(__file__).parents[2] / "docs" / "servers"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
INDEX = PAGES.pop("README")
ASKED_FOR = {"vllm", "sglang", "tgi", "triton", "mlserver", "llama-cpp", "ollama", "scikit-learn"}
HEADINGS = ["Start", "Register", "Probe", "Limits", "Pitfalls"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def read(text: str) -> FleetFile:
    return loads(text, strategies=StrategyRules(strategies.names(), strategies.build))


def posted(page: str) -> list[tuple[str, dict[str, Any]]]:
    """Address and body of every ``curl`` that writes to the control plane."""
    found = []
    for block in blocks(page, "sh"):
        words = shlex.split(block.replace("\\\n", " "), comments=True)
        if words[:1] == ["curl"] and "POST" in words:
            found.append((words[-1], json.loads(words[words.index("-d") + 1])))
    return found


def test_each_server_has_its_page_and_the_index_leads_to_it() -> None:
    assert set(PAGES) >= ASKED_FOR
    linked = set(re.findall(r"\]\(([a-z-]+)\.md\)", INDEX))
    assert linked == set(PAGES)
    rows = [line for line in INDEX.splitlines() if line.startswith("| [")]
    assert len(rows) == len(PAGES)
    used = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[3])}
    assert used == set(PRESETS)


@pytest.mark.parametrize("name", PAGES)
def test_each_page_says_all_that_is_promised(name: str) -> None:
    page = PAGES[name]
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    said = page.split("## ")[0]
    assert ("Not run here" in said) != ("**Tested here**" in said)
    row = next(line for line in INDEX.splitlines() if f"({name}.md)" in line)
    assert ("**yes**" in row) == ("**Tested here**" in said)


@pytest.mark.parametrize("name", PAGES)
def test_fleet_file_and_curl_are_valid_and_say_the_same(name: str) -> None:
    files = [read(block) for block in blocks(PAGES[name], "yaml")]
    assert files
    [(address, body)] = posted(PAGES[name])
    assert address == "$SWITCHYARD/api/v1/fleets"
    [fleet] = read(json.dumps({"fleets": [body]})).fleets
    assert [fleet] == files[0].fleets


@pytest.mark.parametrize("name", PAGES)
def test_the_probe_that_is_explained_is_the_one_that_is_sent(name: str) -> None:
    page = PAGES[name]
    [fleet] = read(blocks(page, "yaml")[0]).fleets
    model = fleet.served_model or fleet.name
    checks = checks_of(fleet.probe, fleet.protocol, fleet.replicas[0].url, model)
    explained = page.split("## Probe")[1].split("## Limits")[0]
    assert fleet.probe.preset in explained
    if name != "scikit-learn":
        request = checks.requests["readiness"]
        assert f"`{request.method} {request.path}`" in explained


@pytest.mark.parametrize("name", [*PAGES, "README"])
def test_json_is_json_and_links_lead_somewhere(name: str) -> None:
    page = PAGES.get(name, INDEX)
    for block in blocks(page, "json"):
        json.loads(block)
    for block in blocks(page, "python"):
        compile(block, name, "exec")
    for target in re.findall(r"\]\((?!http)([^)#]+)", page):
        assert (FOLDER / target).exists(), target
