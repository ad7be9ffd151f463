"""``python parent_death_signal.py NICE COMMAND...``: become COMMAND, which gets SIGTERM when its parent dies.

A supervisor killed with SIGKILL cannot stop its children; the kernel can (Linux: PR_SET_PDEATHSIG,
kept across exec). Elsewhere the command simply runs. Standard library only and few imports: this
stands before every process that ``up`` starts. NICE lowers its priority (0: as it is).
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT = "SWITCHYARD_PARENT_PID"
"""Process id that the parent had when it started us: it may be gone before we could ask the kernel."""


def main() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        expected = os.environ.get(PARENT)
        if expected and os.getppid() != int(expected):
            sys.exit(1)
    os.environ[PARENT] = str(os.getpid())
    os.nice(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
