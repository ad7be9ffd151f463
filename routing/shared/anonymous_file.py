"""Anonymous memory file (memfd): what the processes of one host share by inheriting its descriptor."""

import os
import tempfile


def anonymous_file(name: str) -> int:
    """A descriptor of a file of memory that no path leads to, the caller's to close; where the system has
    none, of an unlinked temporary file. ``name``: for those who look at the process's descriptors."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
