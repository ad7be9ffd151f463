"""First thing that runs on a fresh machine: checks Python, makes ``.venv``, then hands over.

This file alone must be readable by Python 3.6, so that an old one gets a sentence and not a syntax
error: no newer syntax, and no imports of our own above the version check.

    python3 bootstrap/run.py install            the environment only
    python3 bootstrap/run.py up [flags]         the environment, then everything (manage.py up)
    python3 bootstrap/run.py test               the environment with test tools, then every check
    python3 bootstrap/run.py test-long          the same environment, then the tests that take long
    python3 bootstrap/run.py run [--dev] ARGUMENTS...   the environment's Python with these arguments
    python3 bootstrap/run.py compile            the proxy's hot modules in C, if there is a compiler
    python3 bootstrap/run.py servers            the environment of the real model servers that tests run
    python3 bootstrap/run.py audit              weaknesses of the locked packages, bill of materials
"""

import os
import subprocess
import sys

OLDEST = (3, 11)
NEWER = ("python3.14", "python3.13", "python3.12", "python3.11")


def runs(name: str) -> bool:
    """Whether ``name`` starts a Python that is new enough; a pyenv shim is on the path and may not."""
    question = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    try:
        nothing = subprocess.DEVNULL
        return subprocess.call([name, "-c", question], stdout=nothing, stderr=nothing) == 0
    except OSError:
        return False


def refuse_old_python() -> None:
    if sys.version_info >= OLDEST:
        return
    advice = "install python3.11 or newer"
    for name in NEWER:
        if runs(name):
            advice = f"use the {name} found here, with: make up PYTHON={name}"
            break
    major, minor = sys.version_info[:2]
    sys.exit(f"Switchyard needs Python 3.11 or newer and this is {major}.{minor}: {advice}.")


if __name__ == "__main__":
    refuse_old_python()
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from bootstrap.commands import main

    sys.exit(main(sys.argv[1:]))
