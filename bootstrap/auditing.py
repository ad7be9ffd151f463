"""``make audit``: known weaknesses of the locked packages (pip-audit), and a bill of materials (CycloneDX).

Both tools run in ``.venv-audit``, beside ``.venv``, because they want packages of their own. The bill is
written whether or not weaknesses can be looked up: they come from PyPI, and an index that mirrors it may have
none to tell. That is said, and is not "nothing found".
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from bootstrap.environment import LOCKS, PROJECT, STAMP, install_beside, stamp_of
from bootstrap.errors import BootstrapError

VENV = PROJECT / ".venv-audit"
LOCKS_OF_THE_TOOLS = LOCKS / "audit"
AUDITED = ("lock.txt", "lock-dev.txt")
BILL = PROJECT / "build" / "sbom.cdx.json"
NOTHING_FOUND, FOUND, NOT_LOOKED_UP = 0, 1, 2
"""Exit statuses."""


def main() -> int:
    """The exit status."""
    try:
        python = install()
        print(f"bill of materials: {write_bill(python)}", flush=True)
    except BootstrapError as error:
        print(error, file=sys.stderr)
        return NOT_LOOKED_UP
    reports = [report_of(python, LOCKS / name) for name in AUDITED]
    status, words = judged([package for report in reports for package in report])
    print(words, file=sys.stderr if status else sys.stdout)
    return status


def install(venv: Path = VENV, locks: Path = LOCKS_OF_THE_TOOLS) -> Path:
    """The tools' Python; they are installed where they are missing, of another lock, or of a Python that is
    gone."""
    return install_beside(venv, locks, lambda: is_current(venv, locks))


def install_if_possible() -> None:
    """For the tests: whatever hinders it is said, and does not hinder the other tests."""
    try:
        install()
    except BootstrapError as error:
        print(f"no bill of materials for its test: {error}", file=sys.stderr)


def is_current(venv: Path, locks: Path) -> bool:
    """The stamp alone is not believed: the interpreter that it speaks of must run."""
    try:
        stamp = (venv / STAMP).read_text()
    except OSError:
        return False
    return stamp == stamp_of(locks, dev=False) and starts(venv / "bin" / "python")


def starts(python: Path) -> bool:
    try:
        return subprocess.call([python, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


# --- The bill of materials ---


def write_bill(python: Path, to: Path = BILL) -> Path:
    """Of what runs: the packages of ``lock.txt``, and what the pages bring along. CycloneDX 1.6, JSON."""
    to.parent.mkdir(exist_ok=True)
    command = [
        str(python),
        "-m",
        "cyclonedx_py",
        "requirements",
        str(LOCKS / "lock.txt"),
        "--output-reproducible",
    ]
    command += ["--pyproject", str(PROJECT / "pyproject.toml"), "--sv", "1.6", "--of", "JSON"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode != 0:
        raise BootstrapError(f"The bill of materials could not be made: {done.stderr.strip()[-500:]}")
    bill = json.loads(done.stdout)
    bill["metadata"]["component"]["version"] = own_version()
    for component in bill["components"]:
        component.pop("description", None)  # the line of the lock, hashes and all, once more
    bill["components"] += vendored()
    to.write_text(json.dumps(bill, indent=2) + "\n")
    return to


def own_version() -> str:
    text = (PROJECT / "routing" / "contract" / "version.py").read_text()
    found = re.search(r'^VERSION = "([^"]+)"$', text, re.MULTILINE)
    assert found
    return found[1]


def vendored() -> list[dict[str, Any]]:
    """The files of others that the pages load, from the list beside them."""
    folder = PROJECT / "dashboard" / "static" / "dashboard" / "vendor"
    digests = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    return [
        {
            "type": "file",
            "bom-ref": f"vendor/{name}",
            "name": f"dashboard/static/dashboard/vendor/{name}",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for digest, name in ((digest, marked.lstrip("*")) for digest, marked in digests)
        if not name.endswith((".LICENSE", ".md"))
    ]


# --- Known weaknesses ---


def report_of(python: Path, lock: Path) -> list[dict[str, Any]]:
    """What pip-audit says of each package of a lock. Raises BootstrapError where it says nothing at all."""
    command = [
        str(python),
        "-m",
        "pip_audit",
        "--requirement",
        str(lock),
        "--disable-pip",
        "--require-hashes",
    ]
    command += ["--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [{"name": lock.name, "skip_reason": last_line(done.stderr)}]
    return packages


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else "pip-audit said nothing"


def judged(packages: list[dict[str, Any]]) -> tuple[int, str]:
    """The exit status, and what there is to say."""
    weak = [(package, one) for package in packages for one in package.get("vulns", [])]
    unknown = [package for package in packages if "skip_reason" in package]
    lines = []
    for package, one in weak:
        fixed = ", ".join(one.get("fix_versions", [])) or "no version yet"
        lines.append(f"{package['name']} {package.get('version', '')}: {one['id']}, fixed in {fixed}")
    if unknown:
        lines.append(
            f"{len(unknown)} of {len(packages)} could not be looked up, so nothing is known of them. Of "
            f"{unknown[0]['name']}: {unknown[0]['skip_reason']}. PyPI itself has these data; "
            "a mirror of its files has not."
        )
    if weak:
        return FOUND, "\n".join([f"{len(weak)} known weaknesses:", *lines])
    if unknown:
        return NOT_LOOKED_UP, "\n".join(lines)
    return NOTHING_FOUND, f"{len(packages)} packages looked up, no known weakness"


def environment() -> dict[str, str]:
    """The caller's, without what would lead the tools' Python to packages of another one."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
