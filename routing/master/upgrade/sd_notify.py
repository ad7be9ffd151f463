"""Readiness and main process for a service manager (sd_notify(3), systemd); does nothing without one."""

import contextlib
import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def is_present() -> bool:
    """Whether there is one that follows which process is the main one."""
    # As process 1 of a container the master cannot exit, whatever is notified.
    return bool(os.environ.get(VARIABLE)) and os.getpid() != 1


def notify(*assignments: str) -> None:
    """``READY=1``, ``STOPPING=1``, ``MAINPID=…``. Never raises for the service manager's sake."""
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # A name in Linux's abstract namespace.
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto("\n".join(assignments).encode(), address)
