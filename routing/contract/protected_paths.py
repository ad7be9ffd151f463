"""Protected paths: folders with Switchyard's own data. Secret references must not point into them.

What a reference points to is sent to a replica.

Protected are the control plane's data folder (SWITCHYARD_DATA_DIR) and folders added with :func:`protect`.
"""

import os

_PROTECTED: set[str] = set()


def protect(folder: str | os.PathLike[str]) -> None:
    """Protect a folder, in this process and from now on."""
    _PROTECTED.add(os.path.abspath(folder))


def is_protected(path: str) -> bool:
    """Whether the path is in a protected folder, symbolic links followed."""
    data = os.environ.get("SWITCHYARD_DATA_DIR")
    real = os.path.realpath(path)
    return any(_is_in(os.path.realpath(folder), real) for folder in (*_PROTECTED, *((data,) if data else ())))


def _is_in(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder
