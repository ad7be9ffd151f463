"""What ``bootstrap/run.py`` can be asked for; each ends in the environment's own Python."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from bootstrap import auditing, compiling, servers
from bootstrap.environment import PROJECT, ensure
from bootstrap.errors import BootstrapError

USAGE = (
    "usage: run.py install | up [flags] | test [pytest arguments] | test-long | "
    "run [--dev] COMMAND [arguments] | compile | servers | audit"
)


def main(arguments: list[str]) -> int:
    """Exit status; 1 after one sentence on standard error."""
    if not arguments:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return dispatch(arguments[0], arguments[1:])
    except BootstrapError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the next run starts the install afresh", file=sys.stderr)
        return 130


def dispatch(command: str, rest: list[str]) -> int:
    if command == "install":
        python = ensure(dev="--dev" in rest)
        compiling.main(python)
        print(f"ready: {python}")
        return 0
    if command == "compile":
        here = rest == [compiling.HERE]
        return compiling.main(Path(sys.executable) if here else ensure(dev=False), here)
    if command == "up":
        python = ensure(dev=False)
        if not {"-h", "--help"} & set(rest):
            compiling.in_background()
        hand_over(python, [str(PROJECT / "manage.py"), "up", *rest])
    if command == "servers":
        print(f"ready: {servers.install()}")
        return 0
    if command == "audit":
        return auditing.main()
    if command in ("test", "test-long"):
        if command == "test-long" or any("tests/servers" in one for one in rest):
            servers.install_if_possible()
        if command == "test-long":
            auditing.install_if_possible()
        rest = ["--long"] if command == "test-long" else rest
        hand_over(ensure(dev=True), [str(PROJECT / "bootstrap" / "checks.py"), *rest])
    if command == "run" and rest:
        dev = rest[0] == "--dev"
        hand_over(ensure(dev=dev), rest[1:] if dev else rest)
    print(USAGE, file=sys.stderr)
    return 2


def hand_over(python: os.PathLike[str], arguments: list[str]) -> NoReturn:
    """Become ``python arguments`` in the project's folder: same process id, so signals reach it.

    Bytecode is always kept: without it, each of a dozen processes compiles its imports at every start.
    """
    os.chdir(PROJECT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.stdout.flush()
    os.execv(python, [str(python), *arguments])
