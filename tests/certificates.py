"""Certificates for tests, made by the openssl command: self-signed ones, and a CA with what it issues."""

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


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=20)


class Authority:
    """A CA whose files are in ``folder``."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        self._issued = 0
        subject = ("-subj", f"/CN={name}", "-days", "2")
        _openssl("req", "-x509", *_KEY, "-keyout", self._key, "-out", self.certificate, *subject)

    @property
    def reference(self) -> str:
        """As a fleet's ``tls.ca``."""
        return f"file:{self.certificate}"

    def issue(self, *names: str, days: int = 1) -> Path:
        """Key and certificate for these names (``DNS:a.test``, ``IP:127.0.0.1``); -1 day: expired."""
        self._issued += 1
        made = self.certificate.with_name(f"{self.certificate.stem}-{self._issued}.pem")
        request, extensions = made.with_suffix(".csr"), made.with_suffix(".ext")
        key, alone = made.with_suffix(".key"), made.with_suffix(".alone")
        extensions.write_text(f"subjectAltName={','.join(names)}\n")
        _openssl("req", *_KEY, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", str(days))
        _openssl("x509", "-req", "-in", request, *signing, "-extfile", extensions, "-out", alone)
        made.write_text(key.read_text() + alone.read_text())
        return made

    def server(self, *names: str, days: int = 1) -> ssl.SSLContext:
        """What a server with such a certificate listens with."""
        return server_context(self.issue(*names, days=days))


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
