"""Server certificate with its private key: read from files, checked, and made into a TLS server context.

The master reads and checks; what it found travels to the workers as bytes. So a worker has the pair that was
checked, also when it starts while the files are broken, and needs no right to read them.
"""

import contextlib
import hashlib
import os
import re
import ssl
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from routing.tls.x509 import valid_until

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.M)
_NOT_A_PAIR = ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's words for keys of one kind and of two."""
_LARGEST_FILE = 1 << 20


class CertificateError(Exception):
    """The files cannot be used; the message is one sentence that names the file."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A pair that handshakes can be made with."""

    chain: bytes
    """PEM: the server's own certificate, then those that lead to a known issuer."""
    key: bytes
    """PEM, without passphrase."""
    expires_at: float
    """Unix seconds; of the server's own certificate."""
    fingerprint: str
    """SHA-256 of it, in hexadecimal digits."""

    def __repr__(self) -> str:
        return f"<Certificate {self.fingerprint[:16]}>"


def read(certificate: Path, key: Path) -> Certificate:
    """Both may be one file. Raises :class:`CertificateError`."""
    chain = _text(certificate, "--tls-certificate")
    secret = chain if key == certificate else _text(key, "--tls-key")
    found = _CERTIFICATE.search(chain)
    if found is None:
        raise CertificateError(f"--tls-certificate {certificate}: it holds no certificate in PEM form")
    if _ENCRYPTED.search(secret):
        raise CertificateError(f"--tls-key {key}: the private key has a passphrase; give one without")
    if not _PRIVATE_KEY.search(secret):
        missing = " (and no --tls-key is given)" if key == certificate else ""
        raise CertificateError(f"--tls-key {key}: it holds no private key in PEM form{missing}")
    try:
        server_context(chain, secret)
    except ssl.SSLError as error:
        if error.reason in _NOT_A_PAIR:
            words = f"the private key of --tls-key {key} is not that of the certificate in {certificate}"
            raise CertificateError(words) from error
        words = f"--tls-certificate {certificate}, --tls-key {key}: OpenSSL cannot use them"
        raise CertificateError(f"{words} ({error.reason or 'a broken certificate or key'})") from error
    try:
        der = ssl.PEM_cert_to_DER_cert(found[0].decode("ascii"))
        expires_at = valid_until(der)
    except ValueError as error:
        raise CertificateError(f"--tls-certificate {certificate}: not a certificate: {error}") from error
    fingerprint = hashlib.sha256(der).hexdigest()
    return Certificate(chain=chain, key=secret, expires_at=expires_at, fingerprint=fingerprint)


def server_context(chain: bytes, key: bytes) -> ssl.SSLContext:
    """For HTTP/1.1 over TLS 1.2 and 1.3. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that asks for new handshakes on one connection costs much and gains nothing.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    with _as_file(chain) as chain_file, _as_file(key) as key_file:
        # Without a password given, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(chain_file, key_file, password="")
    return context


@contextlib.contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    """A path to bytes that are on no disk: the ssl module reads certificates and keys from files only."""
    with contextlib.ExitStack() as files:
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("switchyard-tls", os.MFD_CLOEXEC)
            files.callback(os.close, handle)
        else:
            handle = files.enter_context(tempfile.TemporaryFile()).fileno()
        os.write(handle, text)
        os.lseek(handle, 0, os.SEEK_SET)
        yield f"/dev/fd/{handle}"


def _text(path: Path, flag: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # Opening a pipe waits until somebody writes.
            raise CertificateError(f"{flag} {path}: it is no file")
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise CertificateError(f"{flag} {path}: {error.strerror}") from error
    if len(text) > _LARGEST_FILE:
        raise CertificateError(f"{flag} {path}: it is larger than {_LARGEST_FILE} bytes")
    return text
