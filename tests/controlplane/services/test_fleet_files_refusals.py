"""Refusals of ``apply``: each names file, line, column and cure, and nothing is written."""

import os
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.models import AuditEntry, Fleet, Replica

GOOD = """\
version: 1
fleets:
  - name: x
    protocol: openai
    policy:
      timeouts:
        connect_s: 1
    replicas:
      - {name: a, url: "http://10.0.0.1:8000"}
"""
BOMB = "\n".join(
    [
        "a: &a [x, x, x, x, x, x, x, x, x]",
        *(
            f"{here}: &{here} [{', '.join(['*' + there] * 9)}]"
            for there, here in zip("abcdef", "bcdefg", strict=True)
        ),
        "fleets: []",
    ]
)


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """What ``apply`` says of this file, without its name; fails when it takes it or writes anything."""
    file = tmp_path / "fleets.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CommandError) as refused:
        call_command("apply", str(file))
    assert not Fleet.objects.exists()
    assert not Replica.objects.exists()
    assert not AuditEntry.objects.exists()
    lines = str(refused.value).splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines)
    return "\n".join(line.removeprefix(f"{file}: ") for line in lines)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_the_file_without_a_mistake_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "fleets.yaml"
    file.write_text(GOOD)
    call_command("apply", str(file))
    assert Fleet.objects.get().name == "x"


def test_a_typo_on_line_7(tmp_path: Path) -> None:
    assert refusal(tmp_path, changed("connect_s", "conect_s")) == (
        "line 7, column 9: fleets[0].policy.timeouts.conect_s: "
        'unknown field "conect_s"; did you mean "connect_s"?'
    )


def test_a_weight_of_minus_1(tmp_path: Path) -> None:
    said = refusal(tmp_path, changed('8000"}', '8000", weight: -1}'))
    assert said == ("line 9, column 56: fleets[0].replicas[0].weight: must be from 0 to 1000, not -1")


MISTAKES: list[tuple[str | bytes, str, str]] = [
    ("", "line 1, column 1", "the file is empty: write at least fleets: []"),
    ("# nothing\n", "line 1, column 1", "the file is empty"),
    ("just words\n", "line 1, column 1", "must be a fleet file as a group of fields"),
    ("<html><body>no</body></html>\n", "line 1, column 1", "must be a fleet file as a group of fields"),
    ("fleets: [\n", "line 2, column 1", "is a bracket, brace or quote not closed?"),
    ("fleets:\n\t- name: x\n", "line 2, column 1", "indent with spaces, not tabs"),
    ("fleets: []\n---\nfleets: []\n", "line 2, column 1", "write one document, without a second ---"),
    (b"fleets: []\n# caf\xe9\n", "line 2, column 6", "not UTF-8: save it as UTF-8"),
    (b"fleets: []\n\x00", "line 2, column 1", "is not allowed: remove it"),
    (
        changed("connect_s: 1", "connect_s: 1\n        connect_s: 2"),
        "line 8, column 9",
        '"connect_s" is written twice, first on line 7',
    ),
    ("fleets: []\nfleets: []\n", "line 2, column 1", '"fleets" is written twice, first on line 1'),
    (
        changed("connect_s: 1", "<<: {connect_s: 1}"),
        "line 7, column 9",
        "merge keys (<<) are not supported",
    ),
    ("fleets: &f [*f]\n", "line 1", "an alias leads back into itself"),
    ("fleets: *nobody\n", "line 1, column 9", "define it with & before it is used with *"),
    (BOMB, "line 1", "aliases expand to more than 100000 values: write fewer of them"),
    ("fleets: !!python/object:os.system []\n", "line 1, column 9", "is not supported: remove it"),
    (
        changed("connect_s: 1", "connect_s: 1e999"),
        "line 7, column 20",
        "must be from 0.001 to 60 seconds, not inf",
    ),
    (
        changed("connect_s: 1", f"connect_s: 1{'0' * 400}"),
        "line 7, column 20",
        "must be from 0.001 to 60 seconds",
    ),
    (
        changed("connect_s: 1", "connect_s: .nan"),
        "line 7, column 20",
        "must be from 0.001 to 60 seconds, not nan",
    ),
    (changed("version: 1", "version: 2"), "line 1, column 10", "must be 1, not 2"),
    (
        changed("name: x", "name: 8"),
        "line 3, column 11",
        "must be text, not the number 8: put it in quotes",
    ),
    (changed("protocol: openai", "protocol: opnai"), "line 4, column 15", 'did you mean "openai"?'),
    (
        changed("openai", "openai\n  - {name: x, protocol: openai}\n  - name: y\n    protocol: openai"),
        "line 5, column 12",
        'the name "x" is already taken by fleets[0]',
    ),
    (changed("10.0.0.1", "169.254.169.254"), "line 9, column 24", "no replica can be there"),
    (
        changed("policy:", "policy:\n      strategy: peek_ewma"),
        "line 6, column 17",
        'did you mean "peak_ewma"?',
    ),
    (
        changed("policy:", "policy:\n      strategy: random\n      parameters: {tau_s: 1}"),
        "line 7, column 27",
        "it has none",
    ),
    ("[" * 200, "line 1, column 33", "nested more than 32 deep: is a bracket not closed?"),
]


def test_place_and_cure(tmp_path: Path) -> None:
    """One test for all of them: each needs the same empty database, and leaves it so."""
    for text, place, words in MISTAKES:
        first = refusal(tmp_path, text).splitlines()[0]
        assert first.startswith(place)
        assert words in first


def test_all_mistakes_are_told_at_once_in_order(tmp_path: Path) -> None:
    text = changed("connect_s", "conect_s").replace("protocol: openai", "protocol: opnai")
    assert [line.partition(",")[0] for line in refusal(tmp_path, text).splitlines()] == ["line 4", "line 7"]


def test_a_name_that_the_database_has_for_something_else(tmp_path: Path) -> None:
    """What only the database knows is told with its field, and nothing of the file is kept."""
    first = tmp_path / "first.yaml"
    first.write_text(GOOD.replace("protocol: openai", "protocol: openai\n    aliases: [chat]"))
    call_command("apply", str(first))
    second = tmp_path / "second.yaml"
    second.write_text("fleets:\n  - {name: y, protocol: openai}\n  - {name: chat, protocol: openai}\n")
    with pytest.raises(CommandError) as refused:
        call_command("apply", str(second))
    assert 'name: the name "chat" is already an alias of fleet x: choose another' in str(refused.value)
    assert [fleet.name for fleet in Fleet.objects.all()] == ["x"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path, "is a folder")):
        with pytest.raises(CommandError, match=words):
            call_command("apply", str(path))


@pytest.mark.timeout(60)
def test_a_file_without_an_end() -> None:
    with pytest.raises(CommandError) as refused:
        call_command("apply", "/dev/zero")
    regular = "and only regular files are read: save what it holds as a file"
    assert str(refused.value) == f"/dev/zero: is a device, {regular}"


def test_what_a_command_writes() -> None:
    """``apply <(command)`` of a shell: a pipe under a file's name."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as writer:
        writer.write(GOOD)
    call_command("apply", f"/dev/fd/{reading}")
    os.close(reading)
    assert Fleet.objects.exists()


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "fleets.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(CommandError) as refused:
        call_command("apply", str(file))
    limit = "has more than 8 MiB, the most that is read: divide it, or leave parts out"
    assert str(refused.value) == f"{file}: {limit}"
    with Path("/dev/zero").open() as endless, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", endless)
        with pytest.raises(CommandError) as refused:
            call_command("apply", "-")
    assert str(refused.value) == f"standard input: {limit}"


def test_standard_input_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as writer:
        writer.write(GOOD)
    with os.fdopen(reading) as stdin, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", stdin)
        call_command("apply", "-")
    assert Fleet.objects.get().name == "x"
