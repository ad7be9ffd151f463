"""Input files: what is refused before it is read, in which words."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from routing.contract import input_file
from routing.contract.input_file import InputRefused


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """The other end of standard input, a pipe."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield pipe


def words_of(path: Path | str, most_bytes: int = 100) -> str:
    with pytest.raises(InputRefused) as caught:
        input_file.read(path, most_bytes)
    assert caught.value.filename == str(path)
    return str(caught.value.strerror)


def test_a_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert input_file.read(file, 100) == b"x" * 100
    (tmp_path / "link").symlink_to(file)
    assert input_file.read(tmp_path / "link", 100) == b"x" * 100


def test_a_larger_one_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    cure = "the most that is read: divide it, or leave parts out"
    assert words_of(file, 8 << 20) == f"has more than 8 MiB, {cure}"
    assert words_of(file) == f"has more than 100 bytes, {cure}"


def test_a_file_that_does_not_say_its_size_is_read_to_the_limit() -> None:
    assert words_of("/proc/self/maps").startswith("has more than 100 bytes")
    assert input_file.read("/proc/self/comm", 100)


@pytest.mark.timeout(20)
def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        cure = "and only regular files are read: save what it holds as a file"
        assert words_of(tmp_path / "pipe") == f"is a pipe, {cure}"
        assert words_of(tmp_path / "socket") == f"is a socket, {cure}"
        assert words_of("/dev/zero") == f"is a device, {cure}"
        assert words_of(tmp_path) == f"is a folder, {cure}"


@pytest.mark.timeout(20)
def test_a_pipe_is_read_by_who_reads_once(tmp_path: Path) -> None:
    """As of a shell's ``<(command)``: its writer may have ended before it is opened."""
    reading, writing = os.pipe()
    os.write(writing, b"said")
    os.close(writing)
    assert input_file.read_once(f"/dev/fd/{reading}", 100) == b"said"
    os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputRefused, match=r"nothing came for 0\.1 s") as caught:
        input_file.read_once(tmp_path / "pipe", 100, silence_s=0.1)
    assert caught.value.filename == str(tmp_path / "pipe")
    with pytest.raises(InputRefused, match="is a device"):
        input_file.read_once("/dev/zero", 100)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        input_file.read(tmp_path / "none", 100)


def test_standard_input_is_read_to_its_end(writer: BinaryIO) -> None:
    writer.write(b"one")
    writer.write(b"two")
    writer.close()
    assert input_file.read_standard_input(100) == b"onetwo"


def test_standard_input_is_read_to_the_limit(writer: BinaryIO) -> None:
    writer.write(b"x" * 101)
    with pytest.raises(InputRefused, match="has more than 100 bytes"):
        input_file.read_standard_input(100)


@pytest.mark.timeout(20)
def test_a_writer_that_writes_nothing_is_not_waited_for(writer: BinaryIO) -> None:
    writer.write(b"x")
    with pytest.raises(InputRefused, match=r"nothing came for 0\.1 s: give a file, or a command that ends"):
        input_file.read_standard_input(100, silence_s=0.1)
