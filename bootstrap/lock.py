"""Makes the locks from pyproject.toml, for maintainers: ``make lock`` (needs uv).

``lock.txt`` holds what runs, examples included; ``lock-dev.txt`` only what the tests need on top;
``tests/servers/lock.txt`` the model servers that tests run, ``audit/lock.txt`` what ``make audit`` runs, and
``compile/lock.txt`` what compiles the proxy's hot modules, each from the ``requirements.in`` beside it. All
are universal: every platform and Python from 3.11 on, with the hash of every wheel.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROJECT = FOLDER.parent
ON_TOP = {FOLDER / "lock-dev.txt": "--group=dev"}
AUDIT = FOLDER / "audit"
COMPILE = FOLDER / "compile"
SERVERS = PROJECT / "tests" / "servers"
SERVERS_HEADER = "# Made by `make lock` from requirements.in; do not edit.\n"
HEADER = "# Made by `make lock` from pyproject.toml; do not edit.\n"
OPTIONS = ["--universal", "--generate-hashes", "--python-version=3.11", "--only-binary=:all:"]
OPTIONS += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]


def main() -> None:
    uv = shutil.which("uv") or sys.exit("make lock needs uv (pip install uv).")
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    run = [uv, "pip", "compile", str(PROJECT / "pyproject.toml"), *OPTIONS, "--extra=examples", *upgrade]
    base = FOLDER / "lock.txt"
    lock = compiled(run, base)
    base.write_text(HEADER + lock)
    for on_top, extra in ON_TOP.items():
        both = compiled([*run, extra, f"--constraint={base}"], on_top)
        known = set(blocks(lock))
        on_top.write_text(HEADER + "".join(block for block in blocks(both) if block not in known))
    audit = [uv, "pip", "compile", str(AUDIT / "requirements.in"), *OPTIONS, *upgrade]
    (AUDIT / "lock.txt").write_text(SERVERS_HEADER + compiled(audit, AUDIT / "lock.txt"))
    tools = [uv, "pip", "compile", str(COMPILE / "requirements.in"), *OPTIONS, *upgrade]
    (COMPILE / "lock.txt").write_text(SERVERS_HEADER + compiled(tools, COMPILE / "lock.txt"))
    servers = [uv, "pip", "compile", str(SERVERS / "requirements.in"), *OPTIONS, *upgrade]
    (SERVERS / "lock.txt").write_text(SERVERS_HEADER + compiled(servers, SERVERS / "lock.txt"))


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
