"""Makes the two locks from pyproject.toml, for maintainers: ``make lock`` (needs uv).

``lock.txt`` holds what runs, examples included; ``lock-dev.txt`` only what the tests need on top.
Both are universal: every platform and Python from 3.11 on, with the hash of every wheel.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROJECT = FOLDER.parent
HEADER = "# Made by `make lock` from pyproject.toml; do not edit.\n"
OPTIONS = ["--universal", "--generate-hashes", "--python-version=3.11", "--only-binary=:all:"]
OPTIONS += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]


def main() -> None:
    uv = shutil.which("uv") or sys.exit("make lock needs uv (pip install uv).")
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    run = [uv, "pip", "compile", str(PROJECT / "pyproject.toml"), *OPTIONS]
    lock = compiled([*run, "--extra=examples", *upgrade], FOLDER / "lock.txt")
    (FOLDER / "lock.txt").write_text(HEADER + lock)
    everything = [*run, "--extra=examples", "--group=dev", *upgrade, f"--constraint={FOLDER / 'lock.txt'}"]
    both = compiled(everything, FOLDER / "lock-dev.txt")
    known = set(blocks(lock))
    (FOLDER / "lock-dev.txt").write_text(HEADER + "".join(b for b in blocks(both) if b not in known))


def compiled(command: list[str], present: Path) -> str:
    """What uv resolves to; versions of the ``present`` lock are kept unless upgraded."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        if present.exists():
            output.write_text(present.read_text())
        subprocess.run([*command, f"--output-file={output}"], check=True, cwd=PROJECT)
        return output.read_text()


def blocks(lock: str) -> list[str]:
    """One text per pinned package, hashes included."""
    return [block for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE) if "==" in block]


if __name__ == "__main__":
    main()
