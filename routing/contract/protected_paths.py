"""Protected paths: folders of Switchyard's own data, into which no secret reference may lead.

What a reference leads to is sent to a replica.

The control plane's data folder, which SWITCHYARD_DATA_DIR names to every process that is told of it, and
those that a process has been told of otherwise: see :func:`protect`.
"""

import os

_PROTECTED: set[str] = set()


def protect(folder: str | os.PathLike[str]) -> None:
    """From now on, and in this process, what lies in it is ours."""
    _PROTECTED.add(os.path.abspath(folder))


def is_protected(path: str) -> bool:
    """Whether the path leads into one of them, links followed."""
    data = os.environ.get("SWITCHYARD_DATA_DIR")
    real = os.path.realpath(path)
    return any(_is_in(os.path.realpath(folder), real) for folder in (*_PROTECTED, *((data,) if data else ())))


def _is_in(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder
