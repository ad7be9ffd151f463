"""Local addresses: whether an IP address is one of this host.

The kernel is asked, each time, because interfaces come and go. Nothing is sent.
"""

import ipaddress
import socket


def is_local(address: str) -> bool:
    """Whether this host has that address. ``address`` without a zone."""
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
