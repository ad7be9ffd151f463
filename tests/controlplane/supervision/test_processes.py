"""When a process has ended: only then are its ports and files free."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from controlplane.supervision import processes
from tests.proxy_process import until

FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("started", flush=True)
# Ends this thread, and not the process.
ctypes.CDLL(None).pthread_exit(None)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_process_runs_until_its_last_thread_has_ended() -> None:
    """Its first thread alone is a zombie, as it is for a moment after each SIGKILL."""
    process = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        until(lambda: state(process.pid) == "Z", "its first thread has ended")
        assert processes.started_at(process.pid) is not None
        assert process.pid in processes.descendants(os.getpid())
        process.send_signal(signal.SIGKILL)
        until(lambda: processes.started_at(process.pid) is None, "all of it has ended")
        assert process.pid not in processes.descendants(os.getpid())
    finally:
        process.kill()
        process.communicate()
