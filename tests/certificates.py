"""Certificates for tests, made by the openssl command."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Pair(NamedTuple):
    """A self-signed certificate for localhost, and its key."""

    certificate: Path
    key: Path

    def trusting(self) -> ssl.SSLContext:
        """For a client that trusts this one and no other."""
        return ssl.create_default_context(cafile=self.certificate)


def make_certificate(folder: Path, name: str = "server", days: int = 365) -> Pair:
    """Files ``name.pem`` and ``name.key``. Negative ``days``: it has expired."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    made = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    about = ["-subj", "/CN=localhost", "-addext", _NAMES, "-days", str(days)]
    files = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
    subprocess.run([*made, *about, *files], check=True, capture_output=True, timeout=30)
    return pair
