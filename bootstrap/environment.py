"""Makes ``.venv`` from the hash-pinned locks; a stamp makes the next start instant.

The stamp names the exact locks and the Python it was made with. No stamp, or one of other locks: the
environment is made afresh, which repairs an interrupted install as well. The test tools are a lock
of their own that comes on top, so that adding them leaves a running Switchyard alone.
"""

import fcntl
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bootstrap.errors import BootstrapError
from bootstrap.installer import install
from bootstrap.launcher import write_launcher

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
STAMP = "switchyard-stamp"
MADE_HERE = "switchyard-made"
LOCKS = PROJECT / "bootstrap"
PIP = PROJECT / "bootstrap" / "vendor" / "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"


def ensure(dev: bool, venv: Path = VENV, locks: Path = LOCKS) -> Path:
    """Return the environment's Python, making the environment first where needed.

    ``dev`` asks for the test tools too. Raises :class:`BootstrapError` with a sentence.
    """
    python = venv / "bin" / "python"
    if is_current(venv, locks, dev):
        return python
    with only_one_at_a_time(locks):
        if not is_current(venv, locks, dev):
            make(venv, locks, dev)
    return python


def is_current(venv: Path, locks: Path, dev: bool) -> bool:
    """Whether the environment was completed from these very locks by a Python that is still there."""
    try:
        stamp = (venv / STAMP).read_text()
    except OSError:
        return False
    enough = {stamp_of(locks, True)} if dev else {stamp_of(locks, True), stamp_of(locks, False)}
    return stamp in enough and os.access(venv / "bin" / "python", os.X_OK)


def stamp_of(locks: Path, dev: bool) -> str:
    """Text that is equal only for the same locks, the same Python and the same place of that Python."""
    names = ["lock.txt", "lock-dev.txt"] if dev else ["lock.txt"]
    digests = [hashlib.sha256((locks / name).read_bytes()).hexdigest() for name in names]
    return "\n".join([sys.version, os.path.realpath(sys.executable), *digests, ""])


def make(venv: Path, locks: Path, dev: bool) -> None:
    """Make the environment; the stamp comes last, so that a half-made one is never taken for whole.

    What is behind a symbolic link may be another checkout's: it is used as long as it is current, and never
    changed.
    """
    if venv.is_symlink():
        raise BootstrapError(
            f"{venv} is a symbolic link, to an environment that is missing, incomplete or of other locks: "
            f"remove the link (rm {shlex.quote(str(venv))}), then try again to have one made here."
        )
    pip = checked_pip()
    python, log = venv / "bin" / "python", venv / "install.log"
    if not is_current(venv, locks, dev=False):
        create(venv)
        install(python, pip, [locks / "lock.txt"], log)
        write_launcher(venv, PROJECT)
        write_stamp(venv, stamp_of(locks, dev=False))
    if dev:
        install(python, pip, [locks / "lock-dev.txt"], log, again=True)
        write_stamp(venv, stamp_of(locks, dev=True))


def install_beside(venv: Path, locks: Path, is_current: Callable[[], bool]) -> Path:
    """Return the Python of an environment beside ``.venv``, of what wants other packages. It is made afresh
    where it is not current. Raises :class:`BootstrapError` with a sentence."""
    python = venv / "bin" / "python"
    with only_one_at_a_time(locks):
        if not is_current():
            pip = checked_pip()
            create(venv)
            install(python, pip, [locks / "lock.txt"], venv / "install.log")
            write_stamp(venv, stamp_of(locks, dev=False))
    return python


def write_stamp(venv: Path, stamp: str) -> None:
    new = venv / f"{STAMP}.new"
    new.write_text(stamp)
    new.replace(venv / STAMP)


def create(venv: Path) -> None:
    """An empty environment in place of any older one; without pip, as a bare Debian has no ``ensurepip``."""
    try:
        import venv as venv_module
    except ImportError:
        raise BootstrapError(
            "This Python has no venv module: install python3-venv, then try again."
        ) from None
    if venv.exists() and not (venv / MADE_HERE).exists():
        raise BootstrapError(f"{venv} was not made by Switchyard: move it away, then try again.")
    try:
        if venv.exists():
            shutil.rmtree(venv)
        venv.mkdir(parents=True)
        (venv / MADE_HERE).touch()
        venv_module.EnvBuilder(with_pip=False, symlinks=True).create(venv)
    except OSError as error:
        raise BootstrapError(f"The environment {venv} cannot be made: {error.strerror or error}.") from None


def checked_pip() -> Path:
    """The vendored pip, refused when its bytes are not the published ones."""
    try:
        digest = hashlib.sha256(PIP.read_bytes()).hexdigest()
    except OSError as error:
        raise BootstrapError(f"{PIP} cannot be read ({error.strerror}): get a fresh clone.") from None
    if digest != PIP_SHA256:
        raise BootstrapError(f"{PIP} is not the published file (its sha256 differs): get a fresh clone.")
    return PIP


@contextmanager
def only_one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock on ``folder`` while two terminals may be installing; the kernel frees it on any exit."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another install is running here; waiting for it", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
