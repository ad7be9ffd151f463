"""Certificate status: expiry and failed reloads of the listener certificate."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from routing.master.admin.exposition import Exposition


class CertificateStatus(NamedTuple):
    """The certificate in use, and the state of its files."""

    expires_at: float
    """Unix seconds."""
    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    alarm: str
    """``expired``, ``reload_failed`` or ``expires_soon``; empty: none of these."""
    refused: str
    """Why the present files cannot be used; empty while they are the certificate in use."""


def certificate_row(view: CertificateStatus, now: float) -> dict[str, Any]:
    """``now``: Unix seconds."""
    return {
        "expires_at": datetime.fromtimestamp(view.expires_at, UTC).isoformat(),
        "expires_in_s": round(view.expires_at - now),
        "fingerprint_sha256": view.fingerprint,
        "alarm": view.alarm,
        "refused": view.refused,
    }


def certificate_metrics(out: Exposition, view: CertificateStatus) -> None:
    prefix = "switchyard_proxy_certificate"
    help_text = "Expiry of the listener's certificate, Unix time; with --tls-certificate."
    out.family(f"{prefix}_expiry_timestamp_seconds", "gauge", help_text, [((), view.expires_at)])
    help_text = "1 while the certificate files are invalid and not in use; with --tls-certificate."
    out.family(f"{prefix}_reload_failed", "gauge", help_text, [((), int(bool(view.refused)))])
