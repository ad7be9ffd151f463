"""Empties the data folder: ``make reset``. Refused while Switchyard runs on it."""

import fcntl
import json
import os
import shutil
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
RUNNING_LOCK = "up.lock"
STATE = "up.json"
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
        if left := left_running(folder):
            names = ", ".join(left)
            sys.exit(f"A killed start has left {names} running on {folder}: first .venv/bin/switchyard down")
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    print(f"{folder} is empty now; the next `make up` begins from nothing")


def left_running(folder: Path) -> list[str]:
    """Names of the programs in the state file of ``up`` that still run (Linux; elsewhere nothing tells)."""
    try:
        programs = json.loads((folder / STATE).read_text())["programs"]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError, KeyError):
        return []
    return [one["name"] for one in programs if one["started"] == f"{boot}/{started(one['pid'])}"]


def started(pid: int) -> str:
    """When it was started; empty: it does not run."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


def refuse_strangers(folder: Path) -> None:
    """A mistyped SWITCHYARD_DATA_DIR must not empty somebody's home."""
    entries = {entry.name for entry in folder.iterdir()}
    if entries and not entries & set(OURS):
        sys.exit(f"{folder} does not look like a data folder of Switchyard, so nothing was deleted.")


if __name__ == "__main__":
    main()
