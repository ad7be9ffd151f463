"""Watched files: what is listed, half-written, replaced, missing, wrong."""

import os
import re
from pathlib import Path

import pytest

from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.kinds.watched_file import WatchedFile, parse

TWO = "- {name: a, url: 'http://10.0.0.1:8000'}\n- {name: b, url: 'http://10.0.0.2:8000/', site: east}\n"


def file(folder: Path, **template: object) -> WatchedFile:
    return WatchedFile(folder, "llm.yaml", template)


async def test_a_file_lists_replicas_with_the_settings_of_all(tmp_path: Path) -> None:
    (tmp_path / "llm.yaml").write_text(TWO)
    found = await file(tmp_path, site="west", version="v2", accelerators=["n/b", "n/a"]).read({})
    a, b = found.entries["a"], found.entries["b"]
    assert (a.url, a.site, a.version, a.accelerators) == (
        "http://10.0.0.1:8000",
        "west",
        "v2",
        ["n/a", "n/b"],
    )
    assert (b.url, b.site) == ("http://10.0.0.2:8000", "east")
    assert (found.complete, found.declared_size) == (True, None)


async def test_it_is_read_again_only_when_it_was_replaced_or_rewritten(tmp_path: Path) -> None:
    (tmp_path / "llm.yaml").write_text(TWO)
    watched = file(tmp_path)
    first = await watched.read({})
    assert await watched.read({}) is first
    (tmp_path / "new").write_text(TWO.splitlines()[0])
    os.replace(tmp_path / "new", tmp_path / "llm.yaml")
    assert set((await watched.read({})).entries) == {"a"}
    (tmp_path / "llm.yaml").write_text(TWO)
    assert set((await watched.read({})).entries) == {"a", "b"}


async def test_missing_unreadable_and_outside(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file llm.yaml in "):
        await file(tmp_path / "x").read({})
    (tmp_path / "x").mkdir()
    (tmp_path / "secret.yaml").write_text(TWO)
    (tmp_path / "x" / "llm.yaml").symlink_to("../secret.yaml")
    with pytest.raises(SourceError, match="is a link that leads out of"):
        await file(tmp_path / "x").read({})
    (tmp_path / "x" / "llm.yaml").unlink()
    (tmp_path / "x" / "llm.yaml").mkdir()
    with pytest.raises(SourceError, match=r"llm.yaml cannot be read: is a folder"):
        await file(tmp_path / "x").read({})


def test_a_size_declares_how_many_there_are() -> None:
    assert parse(b"replicas: []\nsize: 0", "f.yaml", {}).declared_size == 0
    assert (
        parse(b'{"replicas": [{"name": "a", "url": "http://h:1"}], "size": 1}', "f.json", {}).declared_size
        == 1
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n", "is empty: where there are no replicas, write []"),
        (TWO[:-20], "line 2"),
        ("replicas: []\nsize: 1", "lists 0 replicas, but its size says the number 1"),
        ("replicas: []\nsize: false", "but its size says false"),
        ("a: 1", 'unknown field "a"; it can have: replicas, size'),
        ("size: 1", "must be a list of replicas, or have one in replicas, not nothing"),
        ("- a", r"\[0\]: must be a replica as a group of fields, not the text"),
        ("- {name: a, url: 'ftp://h'}", r"\[0\]\.url: "),
        ("- {name: a, url: 'http://h:1', sitee: x}", 'unknown field "sitee"; did you mean "site"'),
        (f"{TWO}- {{name: a, url: 'http://h:1'}}", r'\[2\]\.name: "a" is listed twice: remove one'),
    ],
)
def test_a_file_that_is_wrong_anywhere_is_no_list(text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words if "\\" in words else re.escape(words)):
        parse(text.encode(), "f.yaml", {})


def test_json_that_breaks_off() -> None:
    with pytest.raises(SourceError, match=r"file f.json, line 1, column 2: is no JSON"):
        parse(b"[", "f.json", {})
