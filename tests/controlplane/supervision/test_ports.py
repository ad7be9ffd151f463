"""A port in use is told before anything starts: which, for what, and the flag that changes it."""

import socket
from collections.abc import Iterator

import pytest

from controlplane.supervision import programs
from controlplane.supervision.errors import UpError
from controlplane.supervision.options import UpOptions
from controlplane.supervision.ports import PortUse, refuse_taken
from tests.ports import free_port


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_taken_port_is_named_with_its_use_and_flag(taken: int) -> None:
    with pytest.raises(UpError) as caught:
        refuse_taken([PortUse(taken, "127.0.0.1", "the proxy", "--proxy-port")])
    assert str(caught.value) == (
        f"Port {taken} is in use by another program, and the proxy needs it: "
        "stop that program or choose another port with --proxy-port N."
    )


def test_a_free_port_passes() -> None:
    refuse_taken([PortUse(free_port(), "127.0.0.1", "the proxy", "--proxy-port")])


def test_a_port_that_another_process_shares_counts_as_taken() -> None:
    """A proxy listens with SO_REUSEPORT; a second one beside it would silently take half its connections."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(UpError, match="in use"):
            refuse_taken([PortUse(server.getsockname()[1], "127.0.0.1", "the proxy", "--proxy-port")])


def test_one_port_for_two_uses_is_refused() -> None:
    port = free_port()
    with pytest.raises(UpError, match=f"Port {port} is used twice, by the dashboard and the proxy"):
        refuse_taken(programs.ports(UpOptions(port=port, proxy_port=port, examples=False)))


def test_a_port_beyond_the_last_is_refused() -> None:
    with pytest.raises(UpError, match="would need port 65603: choose a lower --examples-port"):
        refuse_taken([PortUse(65603, "127.0.0.1", "the example replica digits/forest", "--examples-port")])


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UpError, match=r"the dashboard cannot listen on 192\.0\.2\.1"):
        refuse_taken([PortUse(free_port(), "192.0.2.1", "the dashboard", "--port")])


def test_without_examples_seven_ports_are_taken() -> None:
    assert len(programs.ports(UpOptions(examples=False))) == 7
    assert len(programs.ports(UpOptions())) == 14
