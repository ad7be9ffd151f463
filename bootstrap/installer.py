"""Runs the vendored pip over the locks, shows how far it is, and turns its failures into sentences."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from bootstrap.errors import BootstrapError
from bootstrap.progress import Progress

PINNED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*==", re.MULTILINE)
COLLECTING = re.compile(
    r"^(?:Collecting |Processing (?:\S*/)?)([A-Za-z0-9][A-Za-z0-9._]*(?:-[A-Za-z][A-Za-z0-9._]*)*)"
)
NOT_FOR_HERE = re.compile(r"^Ignoring \S+: markers ")
MISSING = re.compile(r"No matching distribution found for (\S+)")
UNKNOWN = re.compile(r"requirement (\S+) .*\(from versions: none\)")
UNREACHABLE = (
    "Failed to establish a new connection",
    "NameResolutionError",
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Cannot connect to proxy",
    "Connection refused",
    "ReadTimeoutError",
)


def install(python: Path, pip: Path, locks: list[Path], log: Path, again: bool = False) -> None:
    """Install exactly what the locks name, wheels only, every file checked against its hash.

    ``again`` installs over what is there, which mends what an interruption left half done.
    pip's own settings (``PIP_INDEX_URL``, ``PIP_FIND_LINKS``, ``PIP_CERT``, a pip.conf …) keep working.
    Raises :class:`BootstrapError`; pip's whole output is in ``log``.
    """
    total = sum(len(PINNED.findall(lock.read_text())) for lock in locks)
    started = time.monotonic()
    print(
        f"installing {total} locked package{'' if total == 1 else 's'} into {python.parent.parent}",
        flush=True,
    )
    status, output = run_pip(pip_command(python, pip, locks, again), Progress(total), log)
    if status != 0:
        raise BootstrapError(reason(output, log))
    print(f"installed in {time.monotonic() - started:.1f} s", flush=True)


def pip_command(python: Path, pip: Path, locks: list[Path], again: bool) -> list[str]:
    command = [
        str(python),
        str(pip / "pip"),
        "install",
        "--require-hashes",
        "--only-binary=:all:",
        "--no-deps",
    ]
    command += [
        "--progress-bar=off",
        "--no-input",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ]
    command += ["--no-compile", "--root-user-action=ignore"]
    if "PIP_RETRIES" not in os.environ:
        command.append("--retries=1")
    if again:
        command.append("--force-reinstall")
    for lock in locks:
        command += ["--requirement", str(lock)]
    return command


def run_pip(command: list[str], progress: Progress, log: Path) -> tuple[int, str]:
    """Run pip; return its exit status and all that it said."""
    said: list[str] = []
    with (
        log.open("w") as copy,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment(),
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            copy.write(line)
            if found := COLLECTING.match(line):
                progress.package(found[1])
            elif NOT_FOR_HERE.match(line):
                progress.total -= 1
            elif line.startswith("Installing collected packages"):
                progress.unpacking()
        status = process.wait()
    progress.done(status == 0)
    return status, "".join(said)


def environment() -> dict[str, str]:
    """The caller's environment without what would point pip at another Python."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def reason(output: str, log: Path) -> str:
    """One sentence for what stopped pip; the log has the rest."""
    return f"{cause(output)} Details: {log}"


def cause(output: str) -> str:
    again = "then run this again."
    if any(sign in output for sign in UNREACHABLE):
        checks = "check the network (HTTPS_PROXY, or PIP_INDEX_URL for a mirror)"
        return f"The package index cannot be reached: {checks}, {again}"
    if "DO NOT MATCH THE HASHES" in output:
        return (
            "A downloaded package is not the one that was locked (its hash differs), so it was not installed."
        )
    if "No space left on device" in output:
        return f"The disk is full: make about 1 GB free, {again}"
    if "CERTIFICATE_VERIFY_FAILED" in output:
        return f"The package index's certificate is not trusted here: set PIP_CERT to your CA file, {again}"
    if missing := UNKNOWN.search(output):
        checks = "check the network and PIP_INDEX_URL or PIP_FIND_LINKS where they are set"
        return f"The package index gave nothing at all for {missing[1]}: {checks}, {again}"
    if missing := MISSING.search(output):
        machine = f"{sys.platform} {os.uname().machine}, Python {sys.version_info[0]}.{sys.version_info[1]}"
        return f"The index has no ready-made package {missing[1]} for this machine ({machine})."
    return "pip could not install the locked packages."
