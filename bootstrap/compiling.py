"""Compiles the proxy's hot modules to C extensions. :mod:`routing.compiled` says which, and where they lie.

It takes a C compiler, Python's headers, and mypyc with what that needs, which is in ``.venv-compile``, beside
``.venv``. Where any of this is missing, the proxy runs from source, and that is said. Half a minute of CPU
time and more: ``up`` does it in the background, so its first workers run from source.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from bootstrap.environment import LOCKS, PROJECT, STAMP, install_beside, only_one_at_a_time, stamp_of
from bootstrap.errors import BootstrapError
from routing import compiled

VENV = PROJECT / ".venv-compile"
LOCKS_OF_THE_TOOLS = LOCKS / "compile"
SCRIPT = LOCKS_OF_THE_TOOLS / "build.py"
KEPT = 3
"""Builds: those of other branches may be wanted again."""
IDLE = 19
"""As of ``nice``."""
HERE = "--here"
"""Flag: mypyc is installed for the Python that runs this, and so is what the proxy needs."""


def hindrance() -> str:
    """Why nothing can be compiled here; empty: it can."""
    if os.environ.get(compiled.OFF) == "0":
        return f"{compiled.OFF} is 0"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler here ({compiler})"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        return "the headers of this Python are missing (python3-dev)"
    return ""


def main(python: Path, here: bool = False) -> int:
    """Compile what is not compiled yet, for the environment with this Python. The exit status is 0 also where
    nothing can be compiled."""
    at = compiled.folder()
    if compiled.is_complete(at):
        print(f"compiled: {at}")
        return 0
    why_not = hindrance()
    if why_not:
        print(f"not compiled, so the proxy runs from source: {why_not}")
        return 0
    try:
        tools = Path(sys.executable) if here else install()
        at.parent.mkdir(parents=True, exist_ok=True)
        with only_one_at_a_time(at.parent):
            if not compiled.is_complete(at):
                build(at, python, tools)
    except BootstrapError as error:
        print(f"not compiled, so the proxy runs from source: {error}", file=sys.stderr)
        return 1
    return 0


def in_background() -> None:
    """Compile in a process of its own, unless that is done or cannot be."""
    at = compiled.folder()
    if compiled.is_complete(at) or hindrance():
        return
    compiled.BUILDS.mkdir(parents=True, exist_ok=True)
    log = compiled.BUILDS / "log"
    print(f"compiling the proxy's hot modules in the background, for its next workers ({log})", flush=True)
    with log.open("w") as said:
        subprocess.Popen(
            [sys.executable, str(PROJECT / "bootstrap" / "run.py"), "compile"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=lambda: os.nice(IDLE),
        )


def install() -> Path:
    """The Python that has mypyc. Raises :class:`BootstrapError` with a sentence."""
    return install_beside(VENV, LOCKS_OF_THE_TOOLS, is_installed)


def is_installed() -> bool:
    try:
        stamp = (VENV / STAMP).read_text()
    except OSError:
        return False
    return stamp == stamp_of(LOCKS_OF_THE_TOOLS, dev=False) and os.access(VENV / "bin" / "python", os.X_OK)


def build(at: Path, python: Path, tools: Path) -> None:
    """Make the extensions in the folder ``at``. ``python``: whose packages' types are read. ``tools``: the
    Python that has mypyc. Raises :class:`BootstrapError` with a sentence."""
    began = time.monotonic()
    print(f"compiling {len(compiled.MODULES)} modules of the proxy into {at}", flush=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=at.parent) as name:
        work = Path(name)
        command = [str(tools), str(SCRIPT), str(python), str(work), compiled.GROUP, *compiled.MODULES]
        log = at.parent / "failed.log"
        with log.open("w") as said:
            status = subprocess.call(command, cwd=PROJECT, stdout=said, stderr=said)
        if status:
            raise BootstrapError(f"mypyc or the C compiler failed. Details: {log}")
        log.unlink()
        if compiled.folder(at.parent) != at:
            raise BootstrapError("a source was changed meanwhile: try again.")
        made = work / "lib"
        compiled.complete(made)
        shutil.rmtree(at, ignore_errors=True)
        made.rename(at)
    print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
    remove_old(at.parent)


def remove_old(builds: Path) -> None:
    """All but the newest few."""
    whole = [one for one in builds.iterdir() if compiled.is_complete(one)]
    for one in sorted(whole, key=lambda one: one.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(one, ignore_errors=True)
