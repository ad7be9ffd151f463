"""Which files of routing/ a warm request passes, in order, and how often it returns to one it had left.

    python -m tests.benchmarks.journey [--heads ids] [--key] [--models served] [--calls] [--stream]

A real proxy with one worker is run from a fleet file as in tests/benchmarks/instructions.py, with a profile
function in the worker that notes each call of a Python function of routing/. Of the last hundred of two
hundred equal requests the journey that most of them made is told: a report of each second, a sweep, or what
a pool looks at a few times a second only, that falls into one of them is none of it.

How it is counted. Noted are calls, not returns from them; what a call makes in C leaves no mark. The
*request's way* is all that the loop calls from the client's bytes until the replica is about to answer, the
*answer's way* all from then on until the loop has nothing more to do for it. Where a function calls another
of its own file, nobody goes anywhere. Where it calls one of another file, the journey enters that file;
calls one after another into one file, with no other file entered between them, are one entry. A *return* is
an entry of a file that the same way has entered before, with others between: either back up to who called,
or once more down to who was asked already. The answer's way as a whole is one return more, since it comes
back to files of the request's way. *Plainly* counted is each step from the file of one call to that of the
next, whoever called, where that file was met before: also where a function that has asked elsewhere goes on
in its own file, and each step of the answer's way.

Replicas give a Date in their answers' heads, as uvicorn does under vLLM and SGLang: it changes once a second,
so that most heads are those of the answer before, and one in a second is new.
"""

import argparse
import json
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from tests.benchmarks.instructions import BODY, DECLARES, KEY, LIMIT_S, STREAM_BODY, Peers, write_fleets
from tests.benchmarks.instructions import PARENT as PROXY_WITH_INTERPRETER
from tests.benchmarks.processes import running
from tests.benchmarks.recorded import PLAIN, PLAIN_EVENT, PLAIN_HEAD, PLAIN_STREAM_HEAD

CHUNK, LAST_CHUNK = b"%x\r\n%b\r\n" % (len(PLAIN_EVENT), PLAIN_EVENT), b"0\r\n\r\n"
REQUESTS, TOLD = 200, 100
QUIET_S = 0.002
"""After each step, for all that the worker does because of it."""
WORKER = """
import collections, json, os, runpy, sys, threading, time
out, root, module = sys.argv[1], os.path.join(os.getcwd(), "routing") + os.sep, sys.argv[3]
del sys.argv[1:4]
calls, now = collections.deque(maxlen=40_000), time.monotonic
def note(frame, event, arg):
    if event != "call" or not frame.f_code.co_filename.startswith(root):
        return
    above = frame.f_back
    while above is not None and not above.f_code.co_filename.startswith(root):
        above = above.f_back
    caller = "" if above is None else above.f_code.co_filename[len(root):]
    calls.append((now(), frame.f_code.co_filename[len(root):], frame.f_code.co_qualname, caller))
def tell():
    while not os.path.exists(out + ".wanted"):
        time.sleep(0.05)
    with open(out + ".part", "w") as file:
        file.write(json.dumps(list(calls)))
    os.replace(out + ".part", out)
threading.Thread(target=tell, daemon=True).start()
sys.setprofile(note)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Given the file to write, and ``-m MODULE …``."""


@dataclass(frozen=True)
class Call:
    at: float
    file: str
    function: str
    caller: str
    """The file of routing/ whose function called; empty: the loop did."""


@dataclass(frozen=True)
class Way:
    calls: tuple[tuple[str, str], ...]
    """(File, function)."""
    entries: tuple[str, ...]
    """Files, each time one is entered from another."""

    @property
    def returns(self) -> tuple[str, ...]:
        return tuple(file for at, file in enumerate(self.entries) if file in self.entries[:at])


def way(calls: list[Call]) -> Way:
    entries: list[str] = []
    for call in calls:
        if call.file != call.caller and (not entries or entries[-1] != call.file):
            entries.append(call.file)
    return Way(tuple((call.file, call.function) for call in calls), tuple(entries))


def journeys(options: argparse.Namespace) -> list[tuple[Way, Way]]:
    """(The request's way, the answer's) of the last requests."""
    with tempfile.TemporaryDirectory() as name:
        folder, peers = Path(name), Peers(options.heads, KEY if options.key else "", "plain", False)
        out, python = folder / "calls.json", folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "$(cat {folder}/worker)" {out} "$@"\n')
        python.chmod(0o700)
        (folder / "worker").write_text(WORKER)
        declares = DECLARES[options.models]
        fleets = write_fleets(
            folder, peers.ports, options.strategy, KEY if options.key else "", None, declares
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", PROXY_WITH_INTERPRETER, str(python), "--fleets", str(fleets)]
        command += ["--workers", "1", "--admin", "none", "--listen", f"127.0.0.1:{port}"]
        command += ["--min-drain-seconds", "0", "--log-level", "error"]
        marks = []
        with running(command, port, None, log=folder / "log", limit_s=60) as process:
            peers.connect(port)
            for number in range(REQUESTS):
                pause_s = QUIET_S if number >= REQUESTS - TOLD else 0.0
                marks.append(one(peers, options.stream, pause_s))
            Path(f"{out}.wanted").touch()
            end = time.monotonic() + LIMIT_S
            while not out.exists():
                if time.monotonic() > end or process.poll() is not None:
                    sys.exit(f"the worker told no calls:\n{(folder / 'log').read_text()}")
                time.sleep(0.05)
        peers.close()
        found = [Call(*call) for call in json.loads(out.read_text())]
    cut = []
    for begin, middle, end in marks[-TOLD:]:
        there = way([call for call in found if begin <= call.at < middle])
        back = way([call for call in found if middle <= call.at < end])
        cut.append((there, back))
    return cut


def one(peers: Peers, stream: bool, pause_s: float) -> tuple[float, float, float]:
    """Send a request; when it began, when the replica was about to answer, and when all was done."""
    begin = time.monotonic()
    replica = peers.ask(STREAM_BODY if stream else BODY)
    time.sleep(pause_s)
    middle = time.monotonic()
    if stream:
        for piece in (dated(PLAIN_STREAM_HEAD) + CHUNK, CHUNK, CHUNK, LAST_CHUNK):
            replica.sendall(piece)
            peers.read_until(piece[-len(CHUNK) :])
    else:
        replica.sendall(dated(PLAIN_HEAD % len(PLAIN)) + PLAIN)
        peers.read_until(PLAIN)
    time.sleep(pause_s)
    return begin, middle, time.monotonic()


def dated(head: bytes) -> bytes:
    """With the Date that a model server's head has."""
    return head[:-2] + f"Date: {formatdate(usegmt=True)}\r\n\r\n".encode()


def tell(name: str, found: Way, with_calls: bool) -> None:
    print(f"\n{name}: {len(found.calls)} calls, {len(found.entries)} entries, {len(found.returns)} returns")
    seen: set[str] = set()
    for file in found.entries:
        print(f"  {'back to ' if file in seen else ''}routing/{file}")
        seen.add(file)
    if with_calls:
        print("\n".join(f"    {file}: {function}" for file, function in found.calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heads", choices=("same", "ids"), default="same", help="how requests' heads differ")
    parser.add_argument("--key", action="store_true", help="ask for a client key, and send it")
    parser.add_argument("--strategy", default="", help="of the fleet; default: the policy's own")
    parser.add_argument("--models", choices=DECLARES, default="any", help="what the fleet says of its models")
    parser.add_argument("--stream", action="store_true", help="an answer of three events")
    parser.add_argument("--calls", action="store_true", help="tell each call")
    options = parser.parse_args()
    subprocess.run([sys.executable, "-m", "compileall", "-q", "routing"], check=True)
    found = Counter(journeys(options))
    (there, back), times = found.most_common(1)[0]
    print(f"Python {platform.python_version()}; the journey of {times} of the last {TOLD} requests")
    tell("the request's way", there, options.calls)
    tell("the answer's way", back, options.calls)
    files = list(dict.fromkeys(there.entries + back.entries))
    print(f"\nfiles, in the order of the first entry: {len(files)}")
    for number, file in enumerate(files, 1):
        print(f"{number:4} routing/{file}")
    returns = len(there.returns) + len(back.returns) + 1
    met = [file for file, _ in there.calls + back.calls]
    steps = sum(file != met[at - 1] and file in met[:at] for at, file in enumerate(met))
    print(f"plainly counted: {steps}")
    print(f"returns to a file that was left: {returns} (one of them the answer's way as a whole)")


if __name__ == "__main__":
    main()
