"""Client address: whose request it is, for limits, logs and outlier detection."""

from routing.http.interfaces import Client
from routing.http.request_head import RequestHead


def client_address(client: Client, head: RequestHead) -> bytes:
    """Who has connected or, if that is a trusted proxy, whom it names."""
    if client.trusts is None or head.forwarded is None:
        return client.peer
    return head.forwarded.client(client.peer, client.trusts)
