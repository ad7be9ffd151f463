"""Calls to several model servers from one program, without a proxy."""

import http.client
from concurrent.futures import ThreadPoolExecutor

from routing.balancing.balancer import Balancer


def embed(balancer: Balancer, text: str) -> bytes:
    with balancer.pick(work=len(text), key=text, timeout_s=5.0) as replica:
        connection = http.client.HTTPConnection(replica.host, replica.port, timeout=30)
        connection.request("POST", "/v1/embeddings", text)
        return connection.getresponse().read()


def embed_all(urls: list[str], texts: list[str]) -> list[bytes]:
    balancer = Balancer(urls, strategy="least_expected_work")
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda text: embed(balancer, text), texts))
