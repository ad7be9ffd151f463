"""Unread bytes: what the kernel holds of a connection, and the loop has not read yet (FIONREAD)."""

import fcntl
import sys
import termios


def has_unread(descriptor: int) -> bool:
    """Whether there are any; not on a connection that is closed."""
    try:
        unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    except (OSError, ValueError):
        return False
    return int.from_bytes(unread, sys.byteorder) > 0
