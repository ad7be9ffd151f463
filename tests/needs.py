"""What a test needs of the machine it runs on. Where that is missing the test is skipped, and says the one
command that enables it; with ``CI=true`` that is a failure, because there everything is to be run."""

import os
import shutil
import socket
from contextlib import closing

import pytest


def need(there: object, missing: str) -> None:
    """``missing``: what is not there, and the command that brings it."""
    if there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def program(name: str, package: str = "") -> str:
    """Where it is."""
    found = shutil.which(name)
    need(found, f"no {name} here; this enables the test: apt-get install {package or name}")
    assert found is not None
    return found


SPARE = "198.51.100.1"
"""Of a range that is for documentation (RFC 5737)."""


def own_address() -> str:
    """An address of this machine that is not loopback."""
    found = [address for address in (_outward(), SPARE) if address and _is_ours(address)]
    need(found, f"no address but loopback here; this enables the test: ip address add {SPARE}/32 dev lo")
    return found[0]


def _outward() -> str:
    """The one that packets to other machines would carry; empty: there is no way out. Nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as outward:
        try:
            outward.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        address = str(outward.getsockname()[0])
        return "" if address.startswith("127.") else address


def _is_ours(address: str) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as bound:
        try:
            bound.bind((address, 0))
        except OSError:
            return False
        return True
