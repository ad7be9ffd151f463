"""Compiled modules: of these very sources or not used, and they do what the sources do."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import compiling
from routing import compiled

PROXY = "tests/routing/proxy"
FILES = (
    f"{PROXY}/test_keep_alive.py",
    f"{PROXY}/test_known_heads.py",
    f"{PROXY}/test_request_cases.py",
    f"{PROXY}/auth",
    f"{PROXY}/exchange/test_backpressure.py",
    f"{PROXY}/exchange/test_broken_stream.py",
    f"{PROXY}/exchange/test_chunk_passthrough.py",
    f"{PROXY}/exchange/test_client_disconnect.py",
    f"{PROXY}/exchange/test_held_beginning.py",
    f"{PROXY}/exchange/test_matches.py",
    f"{PROXY}/exchange/test_retries.py",
    f"{PROXY}/exchange/test_stated_work.py",
    f"{PROXY}/exchange/test_streaming_response.py",
    f"{PROXY}/exchange/test_tunnel.py",
    f"{PROXY}/exchange/continuation/test_continuation.py",
    f"{PROXY}/limits",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two sources, of which a build is there."""
    monkeypatch.delenv(compiled.OFF)
    (tmp_path / "routing" / "http").mkdir(parents=True)
    for name in ("pool", "http/head"):
        (tmp_path / "routing" / f"{name}.py").write_text("LIMIT = 1\n")
    at = compiled.folder(tmp_path / "builds", tmp_path)
    at.mkdir(parents=True)
    compiled.complete(at)
    assert compiled.found(tmp_path / "builds", tmp_path) == at
    return tmp_path


def test_a_build_of_an_edited_source_is_not_used(tree: Path) -> None:
    source = tree / "routing" / "http" / "head.py"
    source.write_text("LIMIT = 2\n")
    assert compiled.found(tree / "builds", tree) is None
    source.write_text("LIMIT = 1\n")
    assert compiled.found(tree / "builds", tree) is not None
    source.rename(source.with_name("tail.py"))
    assert compiled.found(tree / "builds", tree) is None


def test_a_build_that_was_not_finished_is_not_used(tree: Path) -> None:
    at = compiled.folder(tree / "builds", tree)
    (at / "complete").unlink()
    assert compiled.found(tree / "builds", tree) is None


def test_a_variable_turns_it_off(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.OFF, "0")
    assert compiled.found(tree / "builds", tree) is None
    assert compiling.hindrance() == "SWITCHYARD_COMPILED is 0"


def test_a_machine_without_a_compiler_says_so_and_goes_on(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    monkeypatch.setattr(compiled, "folder", lambda: tree / "builds" / "missing")
    assert compiling.main(Path(sys.executable)) == 0
    words = "not compiled, so the proxy runs from source: there is no C compiler here (no-such-compiler)\n"
    assert capsys.readouterr().out == words


def test_bases_and_derived_classes_are_compiled_with_a_class() -> None:
    """A compiled class with an interpreted base is slow, and an interpreted one cannot derive from it."""
    sources = {path: path.read_text() for path in compiled.ROOT.glob("routing/**/*.py")}
    where: dict[str, str] = {}
    bases: dict[str, list[str]] = {}
    for path, text in sources.items():
        module = ".".join(path.relative_to(compiled.ROOT).with_suffix("").parts)
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                where[node.name] = module
                bases[node.name] = [ast.unparse(base) for base in node.bases]
    for name, own in bases.items():
        for base in own:
            if base in where:
                one, other = where[name] in compiled.MODULES, where[base] in compiled.MODULES
                assert one == other, f"{name} derives from {base}, and one of them is compiled"


def test_no_structs_are_compiled() -> None:
    """msgspec reads annotations, of which a compiled class has lost most."""
    for module in compiled.MODULES:
        text = (compiled.ROOT / (module.replace(".", "/") + ".py")).read_text()
        assert not re.search(r"^class \w+\(.*\bStruct\b", text, re.MULTILINE), module


def test_the_list_names_modules() -> None:
    assert len(set(compiled.MODULES)) == len(compiled.MODULES)
    assert all(importlib.util.find_spec(module) for module in compiled.MODULES)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_proxy_does_the_same_when_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(compiled.OFF)
    if why_not := compiling.hindrance():
        pytest.skip(why_not)
    assert compiling.main(Path(sys.executable)) == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.compiled_modules", "-n", "0", *FILES]
    ours = ("SWITCHYARD_", "DJANGO_", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    found = subprocess.run(command, cwd=compiled.ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-8000:]
