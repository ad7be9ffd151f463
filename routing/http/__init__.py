"""Bytes: parsing, framing, forwarding, connection reuse and flow control of HTTP/1.1.

Knows nothing of balancing. :mod:`routing.http.client_connection` is the side that faces clients,
:mod:`routing.http.upstream_connection` the side that faces replicas; :mod:`routing.proxy` joins them.
"""
