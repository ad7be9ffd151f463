"""Certificate watcher: hot reload of the listener's certificate and key when their files are replaced.

Files are checked twice a second, and at once when the master gets a SIGHUP. Changed files are read. A valid
pair of certificate and key is sent to the workers, for handshakes from then on. An invalid one changes
nothing: the last good pair stays.

A renewal may replace the two files one after the other, replace a link, or write a file in pieces. So an
invalid pair is read again before an error is logged.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from routing.tls import certificate
from routing.tls.certificate import Certificate, CertificateError
from routing.tls.file_stamp import FileStamp, file_stamp

log = logging.getLogger(__name__)

POLL_EVERY_S = 0.5
READS_BEFORE_REFUSAL = 3
"""An invalid pair is read this many times before an error is logged."""
EXPIRES_SOON_S = 14 * 86_400.0


class CertificateWatcher:
    """The pair in use, and what is wrong with the pair in the files."""

    def __init__(self, certificate_file: Path, key_file: Path | None) -> None:
        """Reads the files. Raises CertificateError. ``key_file``: ``None``: the certificate's file has the
        key."""
        self._certificate_file = certificate_file
        self._key_file = key_file or certificate_file
        self._stamps = self._stat_files()
        self.in_force = certificate.read(self._certificate_file, self._key_file)
        self.refused = ""
        """Why the present files cannot be used, in words; empty while they are the pair in use."""
        self._reads_left = 0
        """How many times the files are still to be read, while the pair is invalid."""
        self._warned = ""
        self._on_change: Callable[[Certificate], None] | None = None

    def begin(self, on_change: Callable[[Certificate], None]) -> None:
        """From now on ``on_change`` is called with every newer pair."""
        self._on_change = on_change
        self._tell()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            stamps = self._stat_files()
            if stamps != self._stamps:
                self._stamps = stamps
                self._reads_left = READS_BEFORE_REFUSAL
            if self._reads_left:
                self._reads_left -= 1
                self._read()
            self._warn(time.time())

    def reload(self) -> None:
        """Read the files now (SIGHUP), and log the result."""
        self._stamps = self._stat_files()
        self._reads_left = 0
        before = self.in_force
        if self._read() and self.in_force == before:
            self._tell()

    def alarm(self, now: float) -> str:
        """``expired``, ``reload_failed`` or ``expires_soon``; empty: none of these. ``now``: Unix seconds."""
        age = self._age(now)
        return "reload_failed" if self.refused and age != "expired" else age

    def _age(self, now: float) -> str:
        left_s = self.in_force.expires_at - now
        return "expired" if left_s <= 0 else "expires_soon" if left_s < EXPIRES_SOON_S else ""

    def _stat_files(self) -> tuple[FileStamp, FileStamp]:
        return file_stamp(self._certificate_file), file_stamp(self._key_file)

    def _read(self) -> bool:
        """Read the files. Returns whether they have a valid pair, which is then in use."""
        try:
            found = certificate.read(self._certificate_file, self._key_file)
            now = time.time()
            if found.expires_at <= now < self.in_force.expires_at:
                raise CertificateError(f"{self._certificate_file} holds a certificate that has expired")
        except CertificateError as error:
            if not self._reads_left:
                self.refused = str(error)
                log.error("the certificate cannot be replaced; the last good one stays: %s", error)
            return False
        self._reads_left = 0
        before, self.in_force = self.in_force, found
        was_refused, self.refused = self.refused, ""
        if found != before and self._on_change is not None:
            self._on_change(found)
        if found != before or was_refused:
            self._tell()
        return True

    def _tell(self) -> None:
        until = datetime.fromtimestamp(self.in_force.expires_at, UTC)
        log.info(
            "certificate %s… is in force, until %s", self.in_force.fingerprint[:16], f"{until:%F %R} UTC"
        )
        self._warned = ""
        self._warn(time.time())

    def _warn(self, now: float) -> None:
        """Log a warning once before a certificate expires, and once when it has expired."""
        age = self._age(now)
        if age != self._warned:
            self._warned = age
            left = f"expires in {(self.in_force.expires_at - now) / 86_400:.1f} days"
            log.warning("the certificate %s: renew it", "has expired" if age == "expired" else left)
