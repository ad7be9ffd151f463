"""gRPC server of the external scaler. Ends with SIGTERM or SIGINT, after calls that are under way."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio

from controlplane.keda.external_scaler import ExternalScaler

STOP_S = 2.0
"""Streams never end by themselves."""

logger = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    """PEM files. ``client_ca``: who signs clients; ``None``: clients need no certificate."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


async def serve(address: str, tls: TlsFiles | None) -> None:
    """Raises OSError where it cannot listen there or a file cannot be read."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((ExternalScaler().handlers(),))
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(tls))
    except RuntimeError as error:  # what gRPC says where it cannot bind
        raise OSError(f"cannot listen at {address}: {error}") from None
    await server.start()
    logger.info("KEDA's external scaler listens at %s", f"{address.rpartition(':')[0]}:{port}")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop(STOP_S)


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    client_ca = None if tls.client_ca is None else tls.client_ca.read_bytes()
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())], client_ca, client_ca is not None
    )
