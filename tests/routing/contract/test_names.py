"""Slugs and aliases."""

import pytest

from routing.contract.names import alias_problem, is_slug


@pytest.mark.parametrize("name", ["a", "0", "llama-3.1_8b", "a" * 63])
def test_slugs(name: str) -> None:
    assert is_slug(name)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a b", "a/b", "a\n", "é", "a" * 64])
def test_what_is_not_a_slug(name: str) -> None:
    assert not is_slug(name)


@pytest.mark.parametrize("alias", ["chat", "meta-llama/Llama-3.1-8B-Instruct", "gpt 4", "模型"])
def test_aliases_are_free_strings(alias: str) -> None:
    assert alias_problem(alias) is None


@pytest.mark.parametrize(
    ("alias", "problem"),
    [
        ("", "must not be empty"),
        (" a", "begins or ends with a space; remove it"),
        ("a\x00", "holds a control character; remove it"),
        ("a" * 256, "is 256 characters long; at most 255 are allowed"),
    ],
)
def test_but_not_without_limits(alias: str, problem: str) -> None:
    assert alias_problem(alias) == problem
