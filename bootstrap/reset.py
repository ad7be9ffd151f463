"""Empties the data folder: ``make reset``. Refused while Switchyard runs on it."""

import fcntl
import os
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
RUNNING_LOCK = "up.lock"
OURS = ("secret_key", "db.sqlite3", "logs", RUNNING_LOCK)


def main() -> None:
    folder = Path(os.environ.get("SWITCHYARD_DATA_DIR") or PROJECT / "var").resolve()
    if not folder.exists():
        print(f"{folder} is empty already")
        return
    refuse_strangers(folder)
    with (folder / RUNNING_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Switchyard is running on {folder}: stop it first (Ctrl-C in its terminal).")
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    print(f"{folder} is empty now; the next `make up` begins from nothing")


def refuse_strangers(folder: Path) -> None:
    """A mistyped SWITCHYARD_DATA_DIR must not empty somebody's home."""
    entries = {entry.name for entry in folder.iterdir()}
    if entries and not entries & set(OURS):
        sys.exit(f"{folder} does not look like a data folder of Switchyard, so nothing was deleted.")


if __name__ == "__main__":
    main()
