"""Host addresses: what the system's lookup (DNS, ``/etc/hosts``) has for a host name.

The control plane tells the hosts of one team from those of another by their addresses, and the data plane
connects to them: both ask alike.
"""

import socket


def host_addresses(name: str) -> tuple[str, ...]:
    """Each address once, in the order in which the system would try them (RFC 6724 §6). Blocks for tens of
    seconds if DNS is silent. Raises OSError, and UnicodeError for a name that cannot be encoded."""
    infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))
