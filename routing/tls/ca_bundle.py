"""CA bundle: trusted certificates, read from where a reference says and kept in memory only."""

import re
import ssl

from routing.contract.secret_references import shown
from routing.tls import secret_loader
from routing.tls.file_stamp import file_stamp
from routing.tls.secret_loader import Stamp

MOST_BYTES = 4 << 20

_CERTIFICATE = re.compile(
    r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:X509 |TRUSTED )?CERTIFICATE-----"
)


def stamp(reference: str) -> Stamp:
    """What differs once the certificates that a reference leads to may have changed. Quick."""
    if reference:
        return secret_loader.stamp(reference)
    usual = ssl.get_default_verify_paths()
    return tuple(file_stamp(path) for path in (usual.cafile, usual.capath) if path)


def certificates(reference: str) -> str:
    """The certificates, in PEM. Raises ValueError that names the reference and says what is wrong."""
    try:
        found = secret_loader.read(reference, MOST_BYTES, "CA certificates have")
    except ValueError as error:
        raise ValueError(f"tls.ca {shown(reference)} {error}") from None
    # Bundles hold comments in any encoding; PEM itself is ASCII.
    blocks = _CERTIFICATE.findall(found.decode("ascii", "ignore"))
    if not blocks:
        raise ValueError(
            f"tls.ca {shown(reference)} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
        )
    return "\n".join(blocks) + "\n"
