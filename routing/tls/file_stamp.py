"""File stamp: tells whether a file was written to or replaced since it was last read."""

import os

FileStamp = tuple[int, ...]


def file_stamp(path: str | os.PathLike[str]) -> FileStamp:
    """Modification time, inode and size; empty while the file is not there. Quick."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size
