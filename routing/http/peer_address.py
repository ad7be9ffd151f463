"""Peer address: the IP address of who has connected."""

import asyncio


def peer_address(transport: asyncio.BaseTransport) -> str:
    """Empty: it has none."""
    address = transport.get_extra_info("peername")
    return str(address[0]) if isinstance(address, tuple) else ""
