"""Service manager notifications (sd_notify(3), systemd): ready, stopping, main process. No-op without one."""

import contextlib
import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def is_present() -> bool:
    """Whether there is a service manager that can be notified of another main process."""
    # As process 1 of a container the master cannot exit, whatever is notified.
    return bool(os.environ.get(VARIABLE)) and os.getpid() != 1


def notify(*assignments: str) -> None:
    """Send ``READY=1``, ``STOPPING=1``, ``MAINPID=…``. Never raises because of the service manager."""
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # A name in Linux's abstract namespace.
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto("\n".join(assignments).encode(), address)
