"""CA certificates where a reference says: read, never kept anywhere but in memory."""

import os
import re
import ssl
import stat

MOST_BYTES = 4 << 20

_CERTIFICATE = re.compile(
    r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:X509 |TRUSTED )?CERTIFICATE-----"
)

Stamp = tuple[tuple[int, ...], ...]


def stamp(reference: str) -> Stamp:
    """What differs once the certificates that a reference leads to may have changed. Quick."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        return ()
    if kind == "file":
        return (_stamp(place),)
    usual = ssl.get_default_verify_paths()
    return tuple(_stamp(path) for path in (usual.cafile, usual.capath) if path)


def certificates(reference: str) -> str:
    """The certificates, in PEM. Raises ValueError that names the reference and says what is wrong."""
    kind, _, place = reference.partition(":")
    try:
        text = _variable(place) if kind == "env" else _file(place)
    except OSError as error:
        raise ValueError(f"tls.ca {reference} cannot be read: {error.strerror}") from None
    except LookupError as error:
        raise ValueError(f"tls.ca {reference} {error.args[0]}") from None
    found = _CERTIFICATE.findall(text)
    if not found:
        raise ValueError(f"tls.ca {reference} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
    return "\n".join(found) + "\n"


def _variable(name: str) -> str:
    if name not in os.environ:
        raise LookupError("is an environment variable that is not set here")
    return os.environ[name]


def _file(path: str) -> str:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise LookupError("is no file")
    if status.st_size > MOST_BYTES:
        raise LookupError(f"has {status.st_size} bytes: CA certificates have {MOST_BYTES} at most")
    with open(path, "rb") as file:
        # Bundles hold comments in any encoding; PEM itself is ASCII.
        return file.read(MOST_BYTES).decode("ascii", "ignore")


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size
