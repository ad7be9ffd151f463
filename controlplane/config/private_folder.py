"""File permissions of folders for one user: sockets and data that no other user of the host may reach.

No Django in here: ``up`` needs it before settings are read.
"""

import os
import stat
from pathlib import Path

OTHERS = 0o007
UMASK = 0o077
"""Of every process that ``up`` starts: what they make is for this user alone."""


class NotPrivate(Exception):
    """A sentence that says whose the folder is, and what to do."""


def make(folder: Path) -> None:
    """Make the folder for this user alone, where it is missing. Raises OSError, and NotPrivate: it is there,
    and another user can read or replace what is in it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    refuse_foreign(folder)


def refuse_foreign(folder: Path) -> None:
    """Raises NotPrivate where there is such a folder, and it is not this user's alone. In a folder that only
    this user can write, as a data folder is, nobody else has made it."""
    try:
        found = folder.lstat()
        if not folder.parent.stat().st_mode & 0o022:
            return
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        problem = "is no folder"
    elif found.st_uid != os.geteuid():
        problem = f"belongs to another user (uid {found.st_uid})"
    elif found.st_mode & 0o077:
        problem = f"can be entered by others (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise NotPrivate(
        f"The folder {folder} {problem}: somebody else may have made it to be in between. "
        "Remove it, or use a data folder with a shorter path."
    )


def close(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Close to others the folder and what is in it under these names; returns what was open.

    What was opened to a group on purpose, for a backup, stays. A folder like ``/tmp`` (sticky) is left alone,
    and so is what belongs to another user. Links are not followed.
    """
    roots = [found for name in names for found in folder.glob(name)]
    inside = [path for root in roots if not root.is_symlink() for path in root.rglob("*")]
    return [path for path in (folder, *roots, *inside) if _closed(path)]


def _closed(path: Path) -> bool:
    """Whether it was open to others, and is no more."""
    try:
        found = path.lstat()
        mine = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX
        if not mine or not found.st_mode & OTHERS or stat.S_ISLNK(found.st_mode):
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)
    except OSError:
        return False
    return True
