"""Secret loader: reads what secret references lead to on this host, into memory only."""

import os
import stat

from routing.tls.file_stamp import FileStamp, file_stamp

Stamp = tuple[FileStamp, ...]


def stamp(reference: str) -> Stamp:
    """What differs once a file that a reference leads to may have changed. Quick."""
    kind, _, place = reference.partition(":")
    return (file_stamp(place),) if kind == "file" else ()


def read(reference: str, most_bytes: int, what: str) -> bytes:
    """What is there. Raises ValueError that goes on where the reference's name ended: ``is no file``.

    ``what``: of which a file has ``most_bytes`` at most.
    """
    kind, _, place = reference.partition(":")
    if kind == "env":
        if place not in os.environ:
            raise ValueError("is an environment variable that is not set here")
        return os.environb[place.encode()]
    try:
        return _file(place, most_bytes, what)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _file(path: str, most_bytes: int, what: str) -> bytes:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("is no file")
    if status.st_size > most_bytes:
        raise ValueError(f"has {status.st_size} bytes: {what} {most_bytes} at most")
    with open(path, "rb") as file:
        return file.read(most_bytes)
