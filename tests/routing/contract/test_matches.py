"""Which fleet a request's host and path lead to."""

import pytest

from routing.contract.matches import MatchIndex, normalise_host, normalise_path
from routing.contract.table import Match

INDEX = MatchIndex(
    {
        "exact": [Match(host="llm.corp.example")],
        "exact-v1": [Match(host="llm.corp.example", path_prefix="/v1")],
        "exact-v1-chat": [Match(host="llm.corp.example", path_prefix="/v1/chat")],
        "eu": [Match(host="*.eu.corp.example")],
        "corp": [Match(host="*.corp.example", path_prefix="/v1")],
        "path": [Match(path_prefix="/models/big")],
        "deep": [Match(path_prefix="/models/big/fast"), Match(host="only.test", path_prefix="/a")],
    }
)


@pytest.mark.parametrize(
    ("host", "target", "fleet"),
    [
        # The longest path of the exact host.
        (b"llm.corp.example", b"/", "exact"),
        (b"llm.corp.example", b"/v1", "exact-v1"),
        (b"llm.corp.example", b"/v1?x=/v1/chat", "exact-v1"),
        (b"llm.corp.example", b"/v1/chat/completions", "exact-v1-chat"),
        # Whole segments only.
        (b"llm.corp.example", b"/v10", "exact"),
        (b"llm.corp.example", b"/v1/chats", "exact-v1"),
        # However a client writes the name.
        (b"LLM.Corp.Example:8443", b"/v1/x", "exact-v1"),
        (b"llm.corp.example.", b"/v1/x", "exact-v1"),
        # The longest suffix; more than the suffix.
        (b"a.eu.corp.example", b"/v1", "eu"),
        (b"a.b.eu.corp.example", b"/x", "eu"),
        (b"eu.corp.example", b"/v1", "corp"),
        (b"corp.example", b"/v1", None),
        (b"evilcorp.example", b"/v1", None),
        (b"x.corp.example", b"/v2", None),
        # A host whose paths do not fit leaves it to those that any host has.
        (b"x.corp.example", b"/models/big/x", "path"),
        (b"only.test", b"/models/big/fast", "deep"),
        (b"only.test", b"/b", None),
        (b"", b"/models/big", "path"),
        (b"[::1]:80", b"/models/big", "path"),
        (b"10.0.0.1:80", b"/models/small", None),
    ],
)
def test_find(host: bytes, target: bytes, fleet: str | None) -> None:
    assert INDEX.find(host, target) == fleet


def test_a_host_with_its_own_paths_is_as_exact_as_one_without() -> None:
    index = MatchIndex({"a": [Match(host="h.test", path_prefix="/a")], "any": [Match(path_prefix="/")]})
    assert index.find(b"h.test", b"/a/b") == "a"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("A.Test", "a.test"),
        ("a.test.", "a.test"),
        ("*.A.test", "*.a.test"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_hosts_are_kept_in_one_form(text: str, kept: str) -> None:
    assert normalise_host(text) == kept


@pytest.mark.parametrize(
    "text", ["*", "*.", "**.a", "a.*", "http://a", "a/b", "a:1", "[::1]", "a b", "ä.test"]
)
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|port|\*"):
        normalise_host(text)


@pytest.mark.parametrize(
    ("text", "kept"), [("", ""), ("/", ""), ("/a", "/a"), ("/a/b/", "/a/b"), ("/a%20b", "/a%20b")]
)
def test_paths_are_kept_in_one_form(text: str, kept: str) -> None:
    assert normalise_path(text) == kept


@pytest.mark.parametrize(
    "text", ["a", "/a//b", "/../a", "/a/%2e%2e/b", "/a b", "/a?b", "/a#b", "/fleets", "/fleets/x", "/ä"]
)
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|slash|fleets"):
        normalise_path(text)
