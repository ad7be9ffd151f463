"""Folders in which Switchyard keeps what is its own: no reference may lead into them, for what it leads to is
sent away.

The control plane's data folder, which SWITCHYARD_DATA_DIR names to every process that is told of it, and
those that a process has been told of otherwise: see :func:`keep`.
"""

import os

_KEPT: set[str] = set()


def keep(folder: str | os.PathLike[str]) -> None:
    """From now on, and in this process, what lies in it is ours."""
    _KEPT.add(os.path.abspath(folder))


def holds(path: str) -> bool:
    """Whether the path leads into one of them, links followed."""
    data = os.environ.get("SWITCHYARD_DATA_DIR")
    real = os.path.realpath(path)
    return any(_is_in(os.path.realpath(folder), real) for folder in (*_KEPT, *((data,) if data else ())))


def _is_in(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder
