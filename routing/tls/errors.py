"""TLS errors in words: why a handshake failed, and what to do."""

import ssl
from collections.abc import Mapping, Sequence

_NAME_CODES = frozenset({62, 63, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_MISMATCH, _IP_ADDRESS_MISMATCH."""

_ISSUER = "set tls.ca to the CA that issued it"
_CERTIFICATE_WORDS: Mapping[int, str] = {
    2: f"the certificate's issuer is not trusted: {_ISSUER}",
    9: "the certificate is not valid yet: look at the clocks of both hosts",
    10: "the certificate has expired: renew it",
    18: "the certificate is self-signed and not trusted: set tls.ca to it, or give the replica another",
    19: f"the certificate's issuer is not trusted (a self-signed CA): {_ISSUER}",
    20: f"the certificate's issuer is not trusted: {_ISSUER}",
    21: f"the certificate's issuer is not trusted: {_ISSUER}, and have the replica send what is between",
    26: "the certificate is not one for servers",
}
"""By OpenSSL's verify code (``x509_vfy.h``)."""

CLOSED_IN_HANDSHAKE = "the connection was closed during the TLS handshake"
_NO_TLS = "no TLS is spoken there: is the URL http://?"
_REASON_WORDS: Mapping[str, str] = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "TLS 1.2 or newer is not spoken there",
    "TLSV1_ALERT_PROTOCOL_VERSION": "TLS 1.2 or newer is not spoken there",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": "HTTP/1.1 is not spoken there",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "a client's certificate is wanted there, and none can be given",
    "TLSV1_UNRECOGNIZED_NAME": "the name is not known there: set tls.server_name to one of its names",
}


def is_name_mismatch(error: BaseException) -> bool:
    """Whether the certificate was trusted but is for something else."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _NAME_CODES


def describe_tls_error(error: BaseException, name: str, names: Sequence[str] = ()) -> str:
    """``error``: what a handshake raised. ``name``: what the certificate had to be for. ``names``: what it is
    for, where that is known."""
    if is_name_mismatch(error):
        if names:
            listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            return f"the certificate is for other names: {listed}; not for {name} (see tls.server_name)"
        return f"the certificate is not for {name} (see tls.server_name)"
    if isinstance(error, ssl.SSLCertVerificationError):
        known = _CERTIFICATE_WORDS.get(error.verify_code)
        return known or f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "the handshake was refused"
        return _REASON_WORDS.get(reason) or f"no TLS connection: {reason.replace('_', ' ').lower()}"
    if isinstance(error, ConnectionError):
        return CLOSED_IN_HANDSHAKE
    return f"no TLS connection: {error}"
