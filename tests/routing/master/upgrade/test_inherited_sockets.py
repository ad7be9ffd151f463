"""Which sockets a proxy is started with, and what they decide."""

import os
import socket
from pathlib import Path

import pytest

from routing.master.listeners import BindAddress, ListenFailed
from routing.master.options import parse
from routing.master.upgrade.inherited_sockets import (
    NO_SOCKETS,
    VARIABLE,
    InheritedSockets,
    environment_value,
    from_environment,
    options_with,
)


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_nothing_is_named() -> None:
    assert from_environment({}) == NO_SOCKETS
    assert NO_SOCKETS.address is None


def test_what_a_parent_passes_on_is_found_by_its_successor() -> None:
    here, there = socket.socketpair()
    first, second, admin = listener(), listener(), listener()
    environment = {VARIABLE: environment_value([first, second], admin, there), "HOME": "/"}
    addresses = [each.getsockname() for each in (first, second, admin)]
    for each in (first, second, admin, there):
        each.detach()
    found = from_environment(environment)
    assert environment == {"HOME": "/"}
    assert found.admin
    assert found.channel
    assert [each.getsockname() for each in (*found.listeners, found.admin)] == addresses
    assert found.address == BindAddress(*addresses[0])
    found.channel.send(b"x")
    assert here.recv(1) == b"x"
    for each in (here, found.channel, found.admin, *found.listeners):
        each.close()


def test_sockets_for_another_process_are_left_alone() -> None:
    assert from_environment({"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "2"}) == NO_SOCKETS


def test_what_does_not_listen_is_refused(tmp_path: Path) -> None:
    unheard = socket.socket()
    with pytest.raises(ListenFailed, match="inherited as listener, is no socket that listens for TCP"):
        from_environment({VARIABLE: f"listener={unheard.detach()}"})
    file = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(ListenFailed, match=f"descriptor {file}, inherited as listener, is no socket: "):
        from_environment({VARIABLE: f"listener={file}"})
    os.close(file)
    with pytest.raises(ListenFailed, match="none is for clients"):
        from_environment({VARIABLE: f"admin={listener().detach()}"})


def test_the_sockets_decide_who_needs_a_key_and_how_many_workers_there_are() -> None:
    options = parse(["--redis", "redis://127.0.0.1", "--workers", "1"])
    assert not options.keys_required
    assert options_with(options, NO_SOCKETS) == options
    with socket.socket() as everywhere, socket.socket() as another:
        # Bound, and never listening.
        everywhere.bind(("0.0.0.0", 0))
        found = options_with(options, InheritedSockets([everywhere, another]))
        assert found.keys_required
        assert found.workers == 2
        assert (
            options_with(
                parse(["--redis", "redis://x", "--workers", "3"]), found=InheritedSockets([everywhere])
            ).workers
            == 3
        )
